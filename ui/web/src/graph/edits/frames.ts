/** Edits of groups and notes. */

import type { EditorGraph, Group, Note } from "../../types";
import { changeList, withFields } from "../record";

export function addGroup(graph: EditorGraph, group: Group): EditorGraph {
  return { ...graph, groups: [...graph.groups, group] };
}

export function setGroup(graph: EditorGraph, id: string, change: Partial<Omit<Group, "id">>): EditorGraph {
  return withFields(graph, {
    groups: changeList(graph.groups, (group) => (group.id === id ? withFields(group, change) : group)),
  });
}

export function addNote(graph: EditorGraph, note: Note): EditorGraph {
  return { ...graph, notes: [...graph.notes, note] };
}

export function setNote(graph: EditorGraph, id: string, change: Partial<Omit<Note, "id">>): EditorGraph {
  return withFields(graph, {
    notes: changeList(graph.notes, (note) => (note.id === id ? withFields(note, change) : note)),
  });
}

/** Call members otherwise; "" takes one out. */
export function renameMembers(groups: Group[], name: (key: string) => string): Group[] {
  return changeList(groups, (group) => {
    const members = group.members?.map(name).filter(Boolean);
    const isSame = members?.every((key, index) => key === group.members?.[index]) ?? true;
    return isSame && members?.length === group.members?.length ? group : { ...group, members: members ?? [] };
  });
}

/** Put some members in the place of others: into the first group that holds one of those. */
export function replaceMembers(groups: Group[], gone: readonly string[], by: readonly string[]): Group[] {
  let isPut = false;
  return changeList(groups, (group) => {
    if (!group.members?.some((key) => gone.includes(key))) return group;
    const members = group.members.filter((key) => !gone.includes(key));
    const added = isPut ? [] : by;
    isPut = true;
    return { ...group, members: [...members, ...added] };
  });
}
