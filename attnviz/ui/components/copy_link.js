// Copies the address of the page; where the clipboard is closed to us, shows it to be copied by hand.
export default function ({ parentElement }) {
  const button = parentElement.querySelector("button");
  const status = parentElement.querySelector("[role=status]");
  button.textContent = "Copy link to this view";
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(window.location.href);
      status.textContent = "Copied";
    } catch {
      status.textContent = window.location.href;
    }
    setTimeout(() => (status.textContent = ""), 4000);
  };
}
