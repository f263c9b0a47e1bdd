package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parleyrun/parley/client"
)

// connected returns a conversation of a server in memory. A program would name its URL.
func connected(id string, pace time.Duration) (c *client.Conversation, stop func()) {
	mount, stop, err := serve(pace)
	if err == nil {
		c, err = client.New(client.JoinID(mount, id), &client.Options{Token: "of-the-user"})
	}
	if err != nil {
		panic(err)
	}
	return c, stop
}

// A message with a key can be sent again if it is unknown whether it arrived.
func ExampleMessage() {
	c, stop := connected("order-1", 0)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	order := client.Message{Body: "Two of them, please.", Key: "order-1/first", InitialData: map[string]string{"name": "Ada"}}
	first, err := c.Send(ctx, order)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := c.Send(ctx, order)
	fmt.Println(again.SubmissionID == first.SubmissionID, err)

	_, err = c.Send(ctx, client.Message{Body: "Am I the first?", IfAbsent: true})
	var rejected *client.Error
	if errors.As(err, &rejected) {
		fmt.Println(rejected.Status, rejected.Type)
	}
	// Output:
	// true <nil>
	// 409 agent_instance_exists
}

// A system sends a signal to an agent. The model gets it as an element.
func ExampleSignal() {
	c, stop := connected("order-2", 0)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	receipt, err := c.Send(ctx, client.Message{
		Body: "It left the house.", Signal: &client.Signal{Type: "parcel", Attributes: map[string]string{"number": "77"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := c.Wait(ctx, receipt)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Text)
	// Output:
	// You said: <signal type="parcel" number="77">
	// It left the house.
	// </signal> (8 words)
}

// A stop button: the running submission and the queue are settled as aborted.
func ExampleConversation_Abort() {
	c, stop := connected("order-3", time.Hour) // slow enough to be aborted
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	receipt, err := c.Send(ctx, client.Message{Body: "long 10"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Abort(ctx))
	_, err = c.Wait(ctx, receipt)
	fmt.Println(errors.Is(err, client.ErrAborted))
	// Output:
	// true <nil>
	// true
}

// An image is sent with a message and read back unchanged.
func ExampleConversation_Attachment() {
	c, stop := connected("order-4", 0)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	_, err := c.Send(ctx, client.Message{
		Body:        "Is it broken?",
		Attachments: []client.Attachment{{MimeType: "image/png", Filename: "vase.png", Data: []byte("\x89PNG\r\n\x1a\n…")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	history, err := c.History(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range history.Messages[0].Parts {
		if part.ID == "" {
			continue
		}
		content, err := c.Attachment(ctx, part.ID)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer content.Close()
		data, err := io.ReadAll(content)
		fmt.Println(content.MimeType, content.Size, len(data), err)
	}
	// Output:
	// image/png 11 11 <nil>
}
