package clientcmd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyrun/parley/client"
)

// attachments opens image files, which are read while they are sent.
func attachments(names []string) ([]client.Attachment, error) {
	var list []client.Attachment
	for _, name := range names {
		kind, err := pictureType(name)
		if err != nil {
			return nil, fmt.Errorf("--attach: %w", err)
		}
		list = append(list, client.Attachment{
			MimeType: kind, Filename: filepath.Base(name),
			Open: func() (io.ReadCloser, error) { return os.Open(name) },
		})
	}
	return list, nil
}

// pictureType detects the media type of a file from its first bytes.
func pictureType(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%w; name an existing image", err)
	}
	defer f.Close() // read only
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", fmt.Errorf("%s is a folder; name an image in it", name)
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	kind := http.DetectContentType(head[:n])
	if !strings.HasPrefix(kind, "image/") {
		return "", fmt.Errorf("%s is %s, not an image; attachments are images, such as PNG or JPEG: send text with - from standard input", name, kind)
	}
	return kind, nil
}
