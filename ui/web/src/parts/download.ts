/** Files that the browser saves: from an address, or a text that the page made. */

export function download(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

export function downloadText(text: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  download(address, name);
  // Chromium reads the address after the click returned.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
