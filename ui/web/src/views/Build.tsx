import { Canvas } from "../canvas/Canvas";
import { Inside } from "../canvas/Inside";
import { OpenedResults } from "../gallery/OpenedResults";
import { Dialogs } from "../panels/Dialogs";
import { TabBar } from "../panels/files/TabBar";
import { Lanes } from "../panels/lanes/Lanes";
import { SidePanel } from "../panels/SidePanel";
import { Toolbar } from "../panels/Toolbar";

/** Build: the canvas with its toolbar, the panels beside it and the devices' lanes below. */
export function Build() {
  return (
    <div className="ll-build">
      <TabBar />
      <Toolbar />
      <div className="ll-build-middle">
        <div className="ll-build-canvas">
          <Inside />
          <Canvas />
        </div>
        <SidePanel />
      </div>
      <Lanes />
      <Dialogs />
      <OpenedResults view="build" items={[]} />
    </div>
  );
}
