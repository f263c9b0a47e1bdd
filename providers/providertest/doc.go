// Package providertest is the conformance suite for model protocols. Only tests import it.
//
// [Run] tests a whole Protocol against the guarantees of package providers. [RunCodec] decodes one
// recorded response whole, truncated at each byte, and in each framing of servers. [RunHistory]
// compares the bodies of requests with and without History. [RunRefusals] tests the classification of
// error responses. [Check] validates the order of events in other tests. [Serve], [Answer] and
// [Refused] are fake vendors. [BenchmarkEncode] and [BenchmarkDecode] measure a Codec.
//
// Nothing depends on time: a stream that does not end hangs its test until the timeout of go test.
package providertest
