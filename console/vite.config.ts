import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

/** The inputs of the build, in addition to the folder src. */
const beside = ['index.html', 'package-lock.json', 'tsconfig.json', 'vite.config.ts'];

/** Writes the digest of the sources into the build, so that a test can detect a stale build. */
function sources(): Plugin {
  return {
    name: 'sources',
    generateBundle() {
      const files = readdirSync('src', { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).replaceAll('\\', '/'));
      const lines = [...files, ...beside].sort().map((file) => `${createHash('sha256').update(readFileSync(file)).digest('hex')}  ${file}\n`);
      this.emitFile({ type: 'asset', fileName: 'sources.sha256', source: lines.join('') });
    },
  };
}

export default defineConfig({
  base: '/+console/',
  // JSX for Preact, without a plugin.
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    target: 'es2023',
    assetsDir: 'a',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  plugins: [sources()],
});
