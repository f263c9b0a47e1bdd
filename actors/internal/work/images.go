package work

import (
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

// fit leaves out images for which a request to the model has no room, and finds those that
// it is sent.
func (c *modelCall) fit(blocks []*providers.Block, now []providers.Message) ([]*providers.Block, []providers.Message) {
	model, err := c.node.o.Providers.Resolve(c.model)
	if err != nil {
		return blocks, now // the call tells
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

// refused are the images that a vendor may have refused a request for, in the order in which
// they are left out, and how many of them go first: the newest, which are new to it, or, if
// they are too much, all but the newest. Too many bytes are theirs, too: no text has as many.
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
