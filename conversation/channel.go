package conversation

import "slices"

// MaxReplyPaths bounds the [ReplyPath] values that a conversation keeps; the newest stay.
const MaxReplyPaths = 16

// ReplyTargetPrefix is the prefix of reply targets that belong to configured channels.
const ReplyTargetPrefix = "channels."

// ReplyPath is a channel that has delivered to a conversation. Target is the reply target named by the
// delivery; empty for none.
type ReplyPath struct {
	Channel string `json:"channel"`
	Target  string `json:"target,omitempty"`
	// Address is the reply address shared by all deliveries of the channel. Several is set if they
	// differ. Both are kept in the path without a target.
	Address string `json:"address,omitempty"`
	Several bool   `json:"several,omitempty"`
}

// ReplyAddress is the address on the platform of a channel to which the reply to a submission goes.
// Package channels interprets it. The zero value stands for the address given by the conversation's
// id.
type ReplyAddress struct {
	Channel string `json:"channel,omitempty"`
	Address string `json:"address,omitempty"`
}

func (p ReplyPath) serves(target string) bool {
	return target == p.Target || target == p.Channel || target == ReplyTargetPrefix+p.Channel
}

// ReplyChannel returns the channel on whose behalf a target gets the reply to a submission, and the
// reply address. An empty channel means none. An empty address stands for the one given by the
// conversation's id.
//
// Only the channel recorded at admission counts, and only package channels sets it. The conversation's
// id and the idempotency key do not count, because callers choose them. A delivery has the channel
// that delivered it. A dispatch by the program is answered by the channels that have delivered to the
// conversation before. A submission of any other caller has no channel, even in a conversation that a
// channel began. So people on the platform never read an answer to a caller unknown to the platform.
//
// The address is that of the delivery, or of the delivery whose work dispatched the submission. Any
// other submission dispatched by the program has the address shared by all deliveries of the channel.
// If the addresses differ, there is no channel, because the reply could reach the wrong person.
func (s *State) ReplyChannel(sub *Submission, target string) (channel, address string) {
	paths := s.paths
	switch {
	case sub.Channel != "":
		paths = append(pathsOf(sub), paths...)
		paths = slices.DeleteFunc(paths, func(p ReplyPath) bool { return p.Channel != sub.Channel })
	case !sub.Dispatched && sub.DispatchDepth == 0:
		return "", ""
	}
	i := slices.IndexFunc(paths, func(p ReplyPath) bool { return p.serves(target) })
	if i < 0 {
		return "", ""
	}
	channel = paths[i].Channel
	switch all := s.pathOf(channel); {
	case sub.ReplyAddress.Channel == channel:
		return channel, sub.ReplyAddress.Address
	case sub.Channel != "":
		return channel, ""
	case all < 0 || s.paths[all].Several:
		return "", ""
	default:
		return channel, s.paths[all].Address
	}
}

// pathOf returns the index of a channel's path without a target, -1 if there is none.
func (s *State) pathOf(channel string) int {
	return slices.IndexFunc(s.paths, func(p ReplyPath) bool { return p.Channel == channel && p.Target == "" })
}

// Replies reports whether a target replies for a channel that has delivered to the conversation.
func (s *State) Replies(target string) bool {
	return slices.ContainsFunc(s.paths, func(p ReplyPath) bool { return p.serves(target) })
}

func pathsOf(sub *Submission) []ReplyPath {
	paths := []ReplyPath{{Channel: sub.Channel}}
	for _, target := range sub.Notify {
		paths = append(paths, ReplyPath{Channel: sub.Channel, Target: target})
	}
	return paths
}

// deliveredBy records the channel of a delivery and its reply address.
func (s *State) deliveredBy(channel, address string) {
	i := s.pathOf(channel)
	if i < 0 {
		s.openPath(ReplyPath{Channel: channel, Address: address})
		return
	}
	if s.paths[i].Address != address {
		s.paths = slices.Clone(s.paths)
		s.paths[i].Several = true
	}
}

func (s *State) foldReplyAddressed(r *ReplyAddressed) error {
	sub, err := s.open(r, r.Submission)
	if err != nil {
		return err
	}
	sub.ReplyAddress = ReplyAddress{r.Channel, r.Address}
	if sub.Channel == r.Channel {
		s.paths = s.pathsBefore
		s.deliveredBy(r.Channel, r.Address)
	}
	return nil
}

func (s *State) openPath(p ReplyPath) {
	if p.Channel == "" || slices.Contains(s.paths, p) {
		return
	}
	s.paths = append(slices.Clone(s.paths), p)
	if more := len(s.paths) - MaxReplyPaths; more > 0 {
		s.paths = s.paths[more:]
	}
}
