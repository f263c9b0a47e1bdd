import { useEffect, useState } from 'preact/hooks';

const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];

/** Switches between the system's theme, light and dark. */
export function ThemeButton() {
  const [theme, set] = useState<Theme>(() => themes.find((t) => t === localStorage.getItem('parley:theme')) ?? 'system');
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    localStorage.setItem('parley:theme', theme);
  }, [theme]);
  const next = themes[(themes.indexOf(theme) + 1) % themes.length]!;
  return <button type="button" class="quiet" title={`Switch to ${next}`} onClick={() => set(next)}><span class="wide">Colours: </span>{theme}</button>;
}
