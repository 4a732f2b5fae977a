/** The JSON shapes that page and server exchange, and the graph as the editor holds it. */

export * from "./types/catalog";
export * from "./types/graph";
export * from "./types/library";
export * from "./types/results";
export * from "./types/runs";
export * from "./types/values";
export * from "./types/workflow";
