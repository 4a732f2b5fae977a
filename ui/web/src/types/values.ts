/** Values in JSON. */

export type Scalar = boolean | number | string;
export type Json = Scalar | null | Json[] | { [key: string]: Json };
export type Point = [number, number];
