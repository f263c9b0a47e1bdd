package providers

import (
	"fmt"
	"slices"
)

// What a model reads in place of an image that its vendor would refuse.
const (
	noPictureText = "(A file that was sent as an image was left out here: it is no PNG, JPEG, GIF or WebP picture.)"
	tooHeavyText  = "(An image was left out here: encoded it has %d bytes, and this model takes %d.)"
	tooLargeText  = "(An image of %d × %d pixels was left out here: this model takes %d a side.)"
)

// What the vendors of anthropic-messages and bedrock-converse-stream refuse is documented
// by them: more than 5 MiB of base64, and more than 8,000 pixels a side. For all others it
// is the size of request that every vendor takes, and what is larger than a WebP can be:
// one that is refused below that is for whoever repeats the call.
const (
	strictImageBytes, strictImageSide = 5 << 20, 8000
	maxImageBytes, maxImageSide       = 20 << 20, 1 << 14
)

// imageRules are what a model takes of images: none of them if both are 0.
type imageRules struct {
	bytes int64 // of base64
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

// Takes reports whether Transform shows an image to the model as one.
func (m Model) Takes(i Image) bool {
	rules := imagesFor(m)
	if !rules.taken() {
		return false
	}
	_, ok := rules.show(i).(Image)
	return ok
}

// show returns an image as the model is sent it, or what it reads instead.
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
