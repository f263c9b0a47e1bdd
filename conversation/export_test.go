package conversation

// Hold bounds what a restored state holds of waiting deliveries, in place of InlineBytes.
func (s *State) Hold(inline int) { s.inline = inline }
