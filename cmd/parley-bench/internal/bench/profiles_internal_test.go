package bench

import (
	"bytes"
	"runtime/pprof"
	"testing"
)

func TestUnreleased(t *testing.T) {
	var text bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := unreleased(text.Bytes()); err != nil || n < 0 {
		t.Errorf("of this process: %d, %v", n, err)
	}
	if n, err := unreleased([]byte("heap profile: 1\n# HeapIdle = 700\n# HeapInuse = 9\n# HeapReleased = 300\n")); err != nil || n != 400 {
		t.Errorf("%d, %v, want 400", n, err)
	}
	for _, bad := range []string{"", "# HeapIdle = 700\n", "# HeapIdle = 99999999999999999999\n# HeapReleased = 1\n", "x # HeapIdle = 1\n# HeapReleased = 1\n"} {
		if n, err := unreleased([]byte(bad)); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
}
