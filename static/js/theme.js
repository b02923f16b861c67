// Runs before the first paint, so that a chosen theme does not flash.
try {
  const choice = localStorage.getItem("theme");
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
} catch {
  // Storage may be forbidden. The system's theme applies then.
}
