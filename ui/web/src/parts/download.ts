/** A text that the page made, saved by the browser as a file. */

export function download(text: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // Chromium reads the address after the click returned.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
