/** What results the gallery asks for. */

export interface ResultQuery {
  search?: string;
  batch?: string;
  limit?: number;
  before?: string;
}
