// Swagger UI is dark when the root element has this class. The dashboard's choice wins over the system's.
const chosen = document.documentElement.dataset.theme;
const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.classList.toggle("dark-mode", isDark);
