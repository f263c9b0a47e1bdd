package work

import (
	"net/http"
	"slices"

	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// lessOf is a view without more attachments. What a view had to leave out before stands in
// the same order once it is recorded, so that nothing is rendered anew.
func lessOf(v prompt.View, without []conversation.AttachmentID) prompt.View {
	for _, id := range without {
		if !slices.Contains(v.Without, id) {
			v.Without = append(slices.Clip(v.Without), id)
		}
	}
	return v
}

// findImages finds the images that the model is sent.
func (c *modelCall) findImages(blocks []*providers.Block, now []providers.Message) {
	model, err := c.node.o.Providers.Resolve(c.model)
	if err != nil {
		return // the call tells
	}
	for _, b := range blocks {
		c.addImages(model, b.Messages())
	}
	c.addImages(model, now)
}

func (c *modelCall) addImages(model providers.Model, messages []providers.Message) {
	for _, m := range messages {
		before := len(c.images)
		for _, p := range m.Parts {
			parts := []providers.Part{p}
			if r, ok := p.(providers.ToolResult); ok {
				parts = r.Content
			}
			for _, p := range parts {
				if i, ok := p.(providers.Image); ok && model.Takes(i) {
					c.images = append(c.images, prompt.AttachmentOf(i))
				}
			}
		}
		if n := len(c.images) - before; n > 0 {
			c.newest = n
		}
	}
}

// refused are the images that a vendor may have refused a request for, oldest first, and
// how many of them are the newest. Too many bytes are theirs, too: no text has as many.
func (c *modelCall) refused(err *providers.Error) ([]conversation.AttachmentID, int) {
	content := err.Kind == providers.KindInvalidRequest || err.Status == http.StatusRequestEntityTooLarge
	if !content || err.Retryable() {
		return nil, 0
	}
	return c.images, c.newest
}
