/** What results the gallery asks for. */

export interface ResultQuery {
  search?: string;
  batch?: string;
  kind?: "image" | "video" | "audio" | undefined;
  board?: string;
  /** The whole name. */
  workflow?: string;
  /** Only those with a star. */
  starred?: "true" | undefined;
  limit?: number;
  before?: string | undefined;
}
