import { defineConfig } from 'vitest/config';

export default defineConfig({
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  // A test takes milliseconds; the timeout only matters when one hangs.
  test: { include: ['test/**/*.test.{ts,tsx}'], testTimeout: 120_000, pool: 'threads', poolOptions: { threads: { singleThread: true } } },
});
