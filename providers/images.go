package providers

import (
	"fmt"
	"slices"
)

// Texts that replace an image that the vendor would reject.
const (
	noPictureText = "(A file that was sent as an image was left out here: it is no PNG, JPEG, GIF or WebP picture.)"
	tooHeavyText  = "(An image was left out here: encoded it has %d bytes, and this model takes %d.)"
	tooLargeText  = "(An image of %d × %d pixels was left out here: this model takes %d a side.)"
)

// The vendors of anthropic-messages and bedrock-converse-stream document their limits: 5 MiB of base64
// and 8,000 pixels a side. The limits for all others are a request size that every vendor accepts and
// the maximum dimensions of WebP. A vendor may still reject a smaller image; the caller handles that.
const (
	strictImageBytes, strictImageSide = 5 << 20, 8000
	maxImageBytes, maxImageSide       = 20 << 20, 1 << 14
)

// imageRules are the image limits of a model. If both are 0 it accepts no images.
type imageRules struct {
	bytes int64 // bytes in base64
	side  int   // in pixels
}

func imagesFor(m Model) imageRules {
	if !slices.Contains(m.Input, InputImage) {
		return imageRules{}
	}
	rules := imageRules{bytes: maxImageBytes, side: maxImageSide}
	switch m.API {
	case "anthropic-messages", "bedrock-converse-stream":
		rules = imageRules{bytes: strictImageBytes, side: strictImageSide}
	}
	return imageRules{bytes: max(rules.bytes, m.InputLimits.ImageBytes), side: max(rules.side, m.InputLimits.ImageSide)}
}

func (r imageRules) taken() bool { return r != imageRules{} }

// Takes reports whether Transform passes an image to the model as an image.
func (m Model) Takes(i Image) bool {
	rules := imagesFor(m)
	if !rules.taken() {
		return false
	}
	_, ok := rules.show(i).(Image)
	return ok
}

// show returns the image in the form for the model, or the text that replaces it.
func (r imageRules) show(i Image) Part {
	f := i.Facts
	if f == nil {
		return i
	}
	size := i.encoded()
	switch {
	case f.MimeType == "" || size == 0:
		return Text{Text: noPictureText}
	case size > r.bytes:
		return Text{Text: fmt.Sprintf(tooHeavyText, size, r.bytes)}
	case max(f.Width, f.Height) > r.side:
		return Text{Text: fmt.Sprintf(tooLargeText, f.Width, f.Height, r.side)}
	}
	i.MimeType = f.MimeType
	return i
}
