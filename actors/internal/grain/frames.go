package grain

import (
	"errors"
	"io"
	"log/slog"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream serves the stream of a peer. It contains panics of the library's frame decoder, which trusts
// its indexes, and logs why a stream was ended. Only the kind of failure is logged, because the
// library's error may quote a frame.
func (s *serverCreds) stream(srv any, in grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	from := s.streamOpened(in.Context())
	reads := &inbound{ServerStream: in}
	defer func() {
		if r := recover(); r != nil {
			s.refusals.log.Debug("frame decoder panicked", slog.String("panic", panicText(r)))
			s.refusals.report(from, "malformed batch", nil)
			err = status.Error(codes.InvalidArgument, "malformed frame")
		}
	}()
	err = handle(srv, reads)
	switch why := reads.refused; {
	case why != "":
		s.refusals.report(from, why, nil)
	case err != nil && reads.err == nil && status.Code(err) == codes.Unimplemented:
		s.refusals.report(from, "unknown method", nil)
	case err != nil && reads.err == nil:
		s.refusals.report(from, "malformed batch", nil)
		err = status.Error(codes.InvalidArgument, "malformed frame")
	}
	return err
}

type inbound struct {
	grpc.ServerStream
	err     error
	refused string
}

// RecvMsg implements grpc.ServerStream. Only the stream's handler calls it.
func (s *inbound) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if frame, ok := m.(*remote.RemoteMessage); ok && err == nil && !fromMember(frame) {
		err = status.Error(codes.InvalidArgument, "malformed frame")
	}
	if err == nil {
		return nil
	}
	s.err = err
	if errors.Is(err, io.EOF) {
		return err
	}
	switch status.Code(err) {
	case codes.ResourceExhausted:
		s.refused = "frame too large"
	case codes.Internal, codes.InvalidArgument, codes.Unimplemented, codes.Unknown:
		s.refused = "malformed frame"
	}
	return err
}

// fromMember reports whether members send frames of this kind. The library skips the others.
func fromMember(frame *remote.RemoteMessage) bool {
	switch {
	case frame.GetMessageBatch() != nil:
		return true
	case frame.GetConnectRequest() != nil:
		return frame.GetConnectRequest().GetServerConnection() != nil
	}
	return false
}
