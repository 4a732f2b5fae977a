/** What results the gallery asks for. */

export interface ResultQuery {
  search?: string;
  batch?: string;
  kind?: "image" | "video" | "audio" | undefined;
  board?: string;
  /** Only those with a star. */
  starred?: "true" | undefined;
  limit?: number;
  before?: string | undefined;
}
