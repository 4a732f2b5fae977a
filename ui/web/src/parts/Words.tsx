/** Text in which `backticks` mark what is typed as it stands, such as a command. */
export function Words({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}
