import { useEffect, useState } from 'preact/hooks';

/** Copies a text to the clipboard and confirms it. */
export function CopyButton({ text, label = 'Copy', title }: { text: string; label?: string; title?: string }) {
  const [said, say] = useState('');
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => say(''), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say('Copied');
    } catch {
      say('Not allowed');
    }
  };
  return <button type="button" class="quiet" title={title} onClick={copy} aria-live="polite">{said || label}</button>;
}
