import { useEffect, useRef, useState } from 'preact/hooks';
import type { Attachment } from '../client/types';

/** The limits of the protocol for the images of a message: their number, and their size in base64. */
const most = 16;
const mostChars = 14_680_064;

type Props = {
  /** The key of the draft that is kept while the tab is open. */
  place: string;
  busy: boolean;
  send: (body: string, attachments: Attachment[]) => boolean;
  stop: () => void;
  label: string;
  /** Whether it gets the focus when it is mounted, on devices with a keyboard. */
  focused?: boolean;
};

/** The input of a message. */
export function Composer({ place, busy, send, stop, label, focused = false }: Props) {
  const [text, setText] = useState(() => sessionStorage.getItem(`parley:draft:${place}`) ?? '');
  const [images, setImages] = useState<Attachment[]>([]);
  const [problem, setProblem] = useState('');
  const [over, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);

  useEffect(() => {
    try {
      if (text) sessionStorage.setItem(`parley:draft:${place}`, text);
      else sessionStorage.removeItem(`parley:draft:${place}`);
    } catch {
      // A draft that is too long to store can still be sent.
    }
    const a = area.current!;
    a.style.height = 'auto';
    a.style.height = `${Math.min(a.scrollHeight, 240)}px`;
  }, [text, place]);

  useEffect(() => {
    // On a touch device the on-screen keyboard would hide the content.
    if (focused && !matchMedia('(pointer: coarse)').matches) area.current!.focus({ preventScroll: true });
  }, [focused, place]);

  const take = async (files: Iterable<File>) => {
    setProblem('');
    let room = most - images.length;
    for (const file of files) {
      if (!file.type.startsWith('image/')) {
        setProblem(`${file.name} is no image; messages carry images only.`);
        continue;
      }
      if (room-- <= 0) {
        setProblem(`${most} images are the most that a message may have: ${file.name} is left out.`);
        continue;
      }
      const data = await base64(file);
      if (data.length > mostChars) setProblem(`${file.name} is too large: 11 MB is the most.`);
      else setImages((now) => (now.length < most ? [...now, { type: 'image', mimeType: file.type, data, filename: file.name || 'image' }] : now));
    }
  };
  const submit = () => {
    if (text.trim() === '' && images.length === 0) return;
    if (!send(text, images)) return;
    setText('');
    setImages([]);
    setProblem('');
    area.current!.focus({ preventScroll: true });
  };
  const key = (e: KeyboardEvent) => {
    // Enter that ends an IME composition does not send.
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && e.keyCode !== 229) {
      e.preventDefault();
      submit();
    }
  };
  return (
    <form
      class={`composer${over ? ' over' : ''}`}
      onSubmit={(e) => { e.preventDefault(); submit(); }}
      onDragOver={(e) => { e.preventDefault(); setOver(true); }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => { e.preventDefault(); setOver(false); void take(e.dataTransfer?.files ?? []); }}
    >
      {problem && <p class="problem" role="alert">{problem}</p>}
      {images.length > 0 && (
        <ul class="images">
          {images.map((image, i) => (
            <li key={i}>
              {image.filename}
              <button type="button" class="quiet" aria-label={`Remove ${image.filename}`} onClick={() => setImages(images.filter((_, j) => j !== i))}>×</button>
            </li>
          ))}
        </ul>
      )}
      <div class="line">
        <input
          ref={picker} type="file" accept="image/*" multiple hidden
          onChange={(e) => { void take([...(e.currentTarget.files ?? [])]); e.currentTarget.value = ''; }}
        />
        <button type="button" class="add" aria-label="Add images" title="Add images, or drop or paste them" onClick={() => picker.current!.click()}>+</button>
        <textarea
          ref={area} rows={1} value={text} dir="auto" placeholder="Write a message" aria-label={label}
          onInput={(e) => setText(e.currentTarget.value)} onKeyDown={key}
          onPaste={(e) => { if (e.clipboardData?.files.length) { e.preventDefault(); void take(e.clipboardData.files); } }}
        />
        {busy && <button type="button" class="stop" onClick={stop}>Stop</button>}
        <button type="submit" class="primary">Send</button>
      </div>
    </form>
  );
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve((reader.result as string).slice((reader.result as string).indexOf(',') + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
