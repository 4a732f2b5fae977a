import { urls } from "../../host";
import { pageStore } from "../../store/page";
import { UPLOADED } from "../widget";

/** Where a picture is had by its path: one that was sent to the server, or that ships with a template; "" for any other. */
export function pictureAddress(path: string): string {
  if (UPLOADED.test(path)) return urls.upload(path);
  return pageStore.getState().me?.template_files.includes(path) ? urls.templateFile(path) : "";
}
