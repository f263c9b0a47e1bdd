import { useEffect, useState } from 'preact/hooks';

/** Puts a text on the clipboard, and says that it has. */
export function CopyButton({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const [said, say] = useState('');
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => say(''), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
      say('Copied');
    } catch {
      say('Not allowed');
    }
  };
  return <button type="button" class="quiet" onClick={copy} aria-live="polite">{said || label}</button>;
}
