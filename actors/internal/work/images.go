package work

import (
	"slices"

	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// withoutMore returns a view without more attachments. The order of omitted attachments stays the same once
// recorded, so that nothing is rendered again.
func withoutMore(v prompt.View, without []conversation.AttachmentID) prompt.View {
	for _, id := range without {
		if !slices.Contains(v.Without, id) {
			v.Without = append(slices.Clip(v.Without), id)
		}
	}
	return v
}

// fit omits images that exceed the model's request limits, and lists the images that are sent.
func (c *modelCall) fit(blocks []*providers.Block, now []providers.Message) ([]*providers.Block, []providers.Message) {
	model, err := c.node.o.Providers.Resolve(c.model)
	if err != nil {
		return blocks, now // the call returns the error
	}
	req := providers.Fit(model, providers.Request{History: blocks, Messages: now})
	for _, b := range req.History {
		c.addImages(model, b.Messages())
	}
	c.addImages(model, req.Messages)
	return req.History, req.Messages
}

func (c *modelCall) addImages(model providers.Model, messages []providers.Message) {
	for _, m := range messages {
		before := len(c.images)
		for i := range m.Images() {
			if model.Takes(i) {
				c.images = append(c.images, prompt.AttachmentOf(i))
			}
		}
		if n := len(c.images) - before; n > 0 {
			c.newest = n
		}
	}
}

// refused returns the images to omit after a vendor refused a request, in order, and how many go
// first. These are the newest message's images, or all but those if the request was too large. A
// request that is too long in bytes counts too, because text alone is never that long.
func (c *modelCall) refused(err *providers.Error) (images []conversation.AttachmentID, first int) {
	older := len(c.images) - c.newest
	switch {
	case err.Retryable():
		return nil, 0
	case err.TooMuch() && older > 0:
		return c.images, older
	case err.TooMuch():
		return c.images, (len(c.images) + 1) / 2
	case err.Kind == providers.KindInvalidRequest:
		return slices.Concat(c.images[older:], c.images[:older]), c.newest
	}
	return nil, 0
}
