// Light or dark: as the system has it, or as it was chosen. Runs before anything is painted, so that nothing flashes.

(() => {
  const STORED = "weft.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = () => {
    try {
      return localStorage.getItem(STORED);
    } catch {
      return null;
    }
  };
  const apply = () => {
    const theme = read() ?? (system.matches ? "dark" : "light");
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  document.addEventListener("switch-theme", () => {
    const wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    if (wanted === (system.matches ? "dark" : "light")) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, wanted);
    apply();
  });
})();
