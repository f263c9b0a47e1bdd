package cli

import "testing"

func TestFold(t *testing.T) {
	const text = "One two three four five six\nseven.\n\nUsage:\n  parley do what takes long [flags]\n\nFlags:\n" +
		"  -h, --help   print this and that\n               and more\n  -x   short\nThe end\nof it.\n"
	for width, want := range map[int]string{
		0: text,
		33: "One two three four five six\nseven.\n\nUsage:\n  parley do what takes long [flags]\n\nFlags:\n" +
			"  -h, --help\n          print this and that and\n          more\n  -x   short\nThe end of it.\n",
		36: "One two three four five six seven.\n\nUsage:\n  parley do what takes long [flags]\n\nFlags:\n" +
			"  -h, --help   print this and that\n               and more\n  -x   short\nThe end of it.\n",
		500: "One two three four five six seven.\n\nUsage:\n  parley do what takes long [flags]\n\nFlags:\n" +
			"  -h, --help   print this and that and more\n  -x   short\nThe end of it.\n",
	} {
		if got := Fold(text, width); got != want {
			t.Errorf("at %d\n%s\nwant\n%s", width, got, want)
		}
	}
}
