/** How a model gets onto the server's machine: the command that fetches it from the hub. */

const HUB_ID = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/;

/** Whether a text is a model's id on the hub, such as Qwen/Qwen-Image. */
export function isHubId(text: string): boolean {
  return HUB_ID.test(text);
}

/** The id in what people paste: the id itself, or its page's address. "" where there is none. */
export function hubIdIn(text: string): string {
  const plain = text.trim().replace(/^https?:\/\/(www\.)?huggingface\.co\//, "");
  const id = plain.split(/[/?#]/).slice(0, 2).join("/");
  return isHubId(id) ? id : "";
}

export function pullCommand(id: string): string {
  return `latentloom models pull ${id}`;
}
