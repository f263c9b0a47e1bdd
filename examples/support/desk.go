package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/parleyrun/parley/agent"
)

// strictAfter is the number of refunds in a conversation after which the agent refuses more.
const strictAfter = 2

// desk contains the dependencies of tools and hooks. Conversations share it, so it must not hold data
// of one.
type desk struct {
	shop shop
	log  *slog.Logger

	customer *agent.State[customer]
	refunds  *agent.State[int]
	card     *agent.DataWriter[order]
}

func newAgent(model string, s shop, log *slog.Logger) *agent.Agent {
	d := &desk{
		shop: s, log: log,
		customer: agent.NewState("customer", customer{}),
		refunds:  agent.NewState("refunds", 0),
		card:     agent.NewDataWriter[order]("order", nil),
	}
	return &agent.Agent{
		Name:         "support",
		Model:        model,
		Instructions: "You work at the support desk of a shop for household goods. Look orders up before you talk about them. Be brief.",
		Prepare:      d.prepare,
		Tools: []agent.Tool{
			agent.NewTool("order", "Look up an order of the customer and show its card.", d.order, &agent.ToolOptions{Data: []agent.Data{d.card}}),
			agent.NewTool("refund", "Pay the whole price of an order back.", d.refund, &agent.ToolOptions{Durable: true}),
		},
		State: []agent.StateDefinition{d.customer, d.refunds},
		Data:  []agent.Data{d.card},
		Hooks: agent.Hooks{DeliveryStarted: d.load, Settled: d.settled},
	}
}

// load loads the customer before each message, since the data may have changed. The customer id comes
// from the conversation id, which the login verifies for each request. Messages, initial data and the
// model cannot select another customer.
func (d *desk) load(ctx context.Context, t *agent.Turn) error {
	c, err := d.shop.Customer(ctx, customerOf(t.Address.ID))
	if err != nil {
		return err
	}
	return d.customer.Set(ctx, c)
}

// prepare adds the customer's name and refunds to the instructions of each model call.
func (d *desk) prepare(ctx context.Context, _ *agent.Turn, s *agent.Setup) error {
	c, err := d.customer.Get(ctx)
	if err != nil {
		return err
	}
	n, err := d.refunds.Get(ctx)
	if err != nil {
		return err
	}
	s.Instructions += fmt.Sprintf("\n\nThe customer is %s. Refunds so far: %d.", c.Name, n)
	if n >= strictAfter {
		s.Instructions += " That is a lot: refund nothing more, and offer to connect the customer with a person."
	}
	return nil
}

type orderInput struct {
	Order string `json:"order" jsonschema:"the number of the order, such as A1"`
}

// order is the tool that looks up an order and shows its card.
func (d *desk) order(ctx context.Context, in orderInput) (order, error) {
	o, err := d.find(ctx, in.Order)
	if err != nil {
		return order{}, err
	}
	return o, d.card.Write(ctx, o)
}

// find returns an order of the current customer only, whichever order the model asks for.
func (d *desk) find(ctx context.Context, id string) (order, error) {
	c, err := d.customer.Get(ctx)
	if err != nil {
		return order{}, err
	}
	o, err := d.shop.Order(ctx, id)
	if err == nil && o.Customer != c.ID {
		err = fmt.Errorf("unknown order %q", id)
	}
	return o, err
}

// refunded is the result of the refund tool.
type refunded struct {
	Receipt string `json:"receipt"`
	Cents   int64  `json:"cents"`
}

// refund is a durable tool. After a crash it runs again, but skips recorded steps. A step whose record
// was lost runs again, so it passes the call id to the shop as an idempotency key.
func (d *desk) refund(ctx context.Context, in orderInput) (refunded, error) {
	o, err := d.find(ctx, in.Order)
	if err != nil {
		return refunded{}, err
	}
	call, _ := agent.CallFrom(ctx)
	key := string(call.ID)
	cents, err := agent.Step(ctx, "reserve", func(ctx context.Context) (int64, error) {
		return d.shop.Reserve(ctx, key, o.ID)
	})
	if err != nil {
		return refunded{}, err
	}
	receipt, err := agent.Step(ctx, "pay", func(ctx context.Context) (string, error) {
		return d.shop.Pay(ctx, key, cents)
	})
	if err != nil {
		return refunded{}, err
	}
	// The update is durable together with the tool's result, so each refund counts once.
	_, err = d.refunds.Update(ctx, func(n int) int { return n + 1 })
	return refunded{receipt, cents}, err
}

func (d *desk) settled(_ context.Context, s *agent.Settlement) error {
	d.log.Info("message settled", "conversation", s.Address.ID, "outcome", string(s.Outcome), "attempts", s.Attempts, "tokens", s.Usage.Total)
	return nil
}
