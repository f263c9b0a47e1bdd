// Package channeltest is the conformance suite for channels. It verifies the guarantees of package
// channels in process and over HTTP, mounted explicitly and listed in package http.
//
//	func TestNotesSuite(t *testing.T) { channeltest.Run(t, channeltest.Subject{…}) }
//
// Each rule is a subtest named as in the table of docs/channels-tests.md. [Replies] and [LongReplies]
// are the suites for reply targets. The package must be imported by tests only.
package channeltest
