// Package providertest holds the suites every model protocol passes.
//
// Tests of protocols call it. Run drives a whole Protocol and checks the
// guarantees package providers lists; RunCodec feeds one recorded response to
// a Codec whole, cut anywhere and framed in every way servers frame it;
// RunHistory compares the bodies of requests with and without History; RunRefusals
// checks how answers that are no success are classified. Check is
// the judge of the order of events, for tests of one's own. Serve, Answer and
// Refused are vendors for a test. BenchmarkEncode and BenchmarkDecode measure a
// Codec.
//
// Nothing here depends on time: a stream that does not end when it should
// hangs its test, which the time limit of go test reports.
package providertest
