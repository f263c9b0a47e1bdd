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
}

// serves reports whether a target replies for the channel: a delivery named it, or it has the name of the channel.
func (p ReplyPath) serves(target string) bool {
	return target == p.Target || target == p.Channel || target == ReplyTargetPrefix+p.Channel
}

// ReplyChannel returns the channel on whose behalf a target gets the reply to a submission, empty for none.
//
// The fact is the channel of an admission, which package channels alone sets, and neither the id of the conversation
// nor the idempotency key, which callers choose. Of a delivery it is the channel that delivered it. What the program
// dispatched is replied to by channels that have delivered to the conversation before. What any other caller sent has
// no channel, also in a conversation that a channel began: people on the platform never read an answer to a caller
// whom the platform does not know.
func (s *State) ReplyChannel(sub *Submission, target string) string {
	paths := s.paths
	switch {
	case sub.Channel != "":
		paths = append(pathsOf(sub), paths...)
		paths = slices.DeleteFunc(paths, func(p ReplyPath) bool { return p.Channel != sub.Channel })
	case !sub.Dispatched && sub.DispatchDepth == 0:
		return ""
	}
	if i := slices.IndexFunc(paths, func(p ReplyPath) bool { return p.serves(target) }); i >= 0 {
		return paths[i].Channel
	}
	return ""
}

// Replies reports whether a channel that has delivered to the conversation is replied to by a target.
func (s *State) Replies(target string) bool {
	return slices.ContainsFunc(s.paths, func(p ReplyPath) bool { return p.serves(target) })
}

// pathsOf returns the paths that a delivery of a channel opens.
func pathsOf(sub *Submission) []ReplyPath {
	paths := []ReplyPath{{Channel: sub.Channel}}
	for _, target := range sub.Notify {
		paths = append(paths, ReplyPath{sub.Channel, target})
	}
	return paths
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
