//go:build !mutants

package machine

// These rules of the machine always hold. A build with the tag mutants can switch one off to show that
// a test notices.

func fencesIdle(claimed bool) bool { return true }
func listsTakeover() bool          { return true }
func holdsWhenListed() bool        { return true }
func unlistsWhenDurable() bool     { return true }
func acknowledgesReplay() bool     { return true }
func staysListed() bool            { return true }
func staysAtWork() bool            { return true }
func continuesWithSignal() bool    { return true }
func listsFirst() bool             { return true }
func takesKept() bool              { return true }
func refusesLate() bool            { return true }
func overtakesSuspended() bool     { return true }
func staysForReply() bool          { return true }
func staysForPost() bool           { return true }
func postsInOrder() bool           { return true }
func timesPosts() bool             { return true }
func suspendsWhenStored() bool     { return true }
func acknowledgesPending() bool    { return true }
func endsDelivered() bool          { return true }
func keepsOneRun() bool            { return true }
func joinsFirst() bool             { return true }
func asksTree() bool               { return true }
func abortsFirst() bool            { return true }
func refusesClosed() bool          { return true }
func showsEndedWaits() bool        { return true }
func repliesByChannel() bool       { return true }
func asksOnce() bool               { return true }
func repliesByAddress() bool       { return true }
