// Package channeltest is the suite of channels: what package channels promises of all of them,
// held in process and over real HTTP, mounted by itself and listed in package http.
//
//	func TestNotesSuite(t *testing.T) { channeltest.Run(t, channeltest.Subject{…}) }
//
// Every rule is a subtest named as in the table of statements. Replies is the suite of what brings replies back.
package channeltest
