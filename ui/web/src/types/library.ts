/** Where the editor's graph came from. */

/** The saved workflow that it was opened from, or saved as. */
export interface WorkflowRef {
  id: string;
  version: number;
  name: string;
}
