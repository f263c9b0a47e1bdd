package conversation

import "slices"

// MaxReplyPaths bounds how many [ReplyPath] of a conversation are known, the newest.
const MaxReplyPaths = 16

// ReplyTargetPrefix begins the names of the targets that reply for channels of a configuration.
const ReplyTargetPrefix = "channels."

// ReplyPath is a channel that has delivered to a conversation. Target is the target that the delivery named for its
// reply, empty for none.
type ReplyPath struct {
	Channel string `json:"channel"`
	Target  string `json:"target,omitempty"`
	// Address is the reply address of all deliveries of the channel, and Several is set if they differ. Both are kept in
	// the path without a target.
	Address string `json:"address,omitempty"`
	Several bool   `json:"several,omitempty"`
}

// ReplyAddress is the place on the platform of a channel where a submission is replied to: an address that package
// channels interprets. The zero value is the place that the id of the conversation names.
type ReplyAddress struct {
	Channel string `json:"channel,omitempty"`
	Address string `json:"address,omitempty"`
}

// serves reports whether a target replies for the channel: a delivery named it, or it has the name of the channel.
func (p ReplyPath) serves(target string) bool {
	return target == p.Target || target == p.Channel || target == ReplyTargetPrefix+p.Channel
}

// ReplyChannel returns the channel on whose behalf a target gets the reply to a submission, empty for none, and the
// address of the reply, empty for the place that the id of the conversation names.
//
// The fact is the channel of an admission, which package channels alone sets, and neither the id of the conversation
// nor the idempotency key, which callers choose. Of a delivery it is the channel that delivered it. What the program
// dispatched is replied to by channels that have delivered to the conversation before. What any other caller sent has
// no channel, also in a conversation that a channel began: people on the platform never read an answer to a caller
// whom the platform does not know.
//
// The address is that of the delivery, or of the delivery whose work dispatched the submission. A submission that the
// program dispatched otherwise has the address of all deliveries of the channel. If these differ it has no channel: the
// reply would reach one of several people by chance.
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

// pathOf returns the index of the path of a channel without a target, -1 if there is none.
func (s *State) pathOf(channel string) int {
	return slices.IndexFunc(s.paths, func(p ReplyPath) bool { return p.Channel == channel && p.Target == "" })
}

// Replies reports whether a channel that has delivered to the conversation is replied to by a target.
func (s *State) Replies(target string) bool {
	return slices.ContainsFunc(s.paths, func(p ReplyPath) bool { return p.serves(target) })
}

// pathsOf returns the paths that a delivery of a channel opens.
func pathsOf(sub *Submission) []ReplyPath {
	paths := []ReplyPath{{Channel: sub.Channel}}
	for _, target := range sub.Notify {
		paths = append(paths, ReplyPath{Channel: sub.Channel, Target: target})
	}
	return paths
}

// deliveredBy notes the channel of a delivery, and its reply address.
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

// openPath notes the newest path of a delivery.
func (s *State) openPath(p ReplyPath) {
	if p.Channel == "" || slices.Contains(s.paths, p) {
		return
	}
	s.paths = append(slices.Clone(s.paths), p)
	if more := len(s.paths) - MaxReplyPaths; more > 0 {
		s.paths = s.paths[more:]
	}
}
