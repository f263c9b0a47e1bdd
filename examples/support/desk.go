package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/parleyrun/parley/agent"
)

// strictAfter is how many refunds a conversation gets before the agent is strict.
const strictAfter = 2

// desk is what the tools and hooks of the agent share. It keeps nothing of a
// conversation: many of them use it at the same time.
type desk struct {
	shop shop
	log  *slog.Logger

	who     *agent.State[customer]
	refunds *agent.State[int]
	card    *agent.DataWriter[order]
}

// newAgent defines the agent.
func newAgent(model string, s shop, log *slog.Logger) *agent.Agent {
	d := &desk{
		shop: s, log: log,
		who:     agent.NewState("customer", customer{}),
		refunds: agent.NewState("refunds", 0),
		card:    agent.NewDataWriter[order]("order", nil),
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
		State: []agent.StateDefinition{d.who, d.refunds},
		Data:  []agent.Data{d.card},
		Hooks: agent.Hooks{DeliveryStarted: d.load, Settled: d.settled},
	}
}

// load reads the customer before the model sees the message. The customer is that of the conversation's id, which the
// login verifies for every request: neither a message, nor its initial data, nor the model can name another. It does so
// for every message: a name may have changed since the last.
func (d *desk) load(ctx context.Context, t *agent.Turn) error {
	c, err := d.shop.Customer(ctx, customerOf(t.Address.ID))
	if err != nil {
		return err
	}
	return d.who.Set(ctx, c)
}

// prepare says what the model has to know of the customer.
func (d *desk) prepare(ctx context.Context, _ *agent.Turn, s *agent.Setup) error {
	who, err := d.who.Get(ctx)
	if err != nil {
		return err
	}
	n, err := d.refunds.Get(ctx)
	if err != nil {
		return err
	}
	s.Instructions += fmt.Sprintf("\n\nThe customer is %s. Refunds so far: %d.", who.Name, n)
	if n >= strictAfter {
		s.Instructions += " That is a lot: refund nothing more, and offer to connect the customer with a person."
	}
	return nil
}

type orderInput struct {
	Order string `json:"order" jsonschema:"the number of the order, such as A1"`
}

// order is a tool.
func (d *desk) order(ctx context.Context, in orderInput) (order, error) {
	o, err := d.find(ctx, in.Order)
	if err != nil {
		return order{}, err
	}
	return o, d.card.Write(ctx, o)
}

// find returns an order of the customer who is talking, whatever the model asks for.
func (d *desk) find(ctx context.Context, id string) (order, error) {
	who, err := d.who.Get(ctx)
	if err != nil {
		return order{}, err
	}
	o, err := d.shop.Order(ctx, id)
	if err == nil && o.Customer != who.ID {
		err = fmt.Errorf("there is no order %q", id)
	}
	return o, err
}

// refunded is what the model is told of a refund.
type refunded struct {
	Receipt string `json:"receipt"`
	Cents   int64  `json:"cents"`
}

// refund is a durable tool: after a crash it runs again from here, but no step that
// was recorded does. A step whose record was lost runs again as well, so the shop is
// given the call's id as its key, which stays the same.
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
	// Durable together with what the tool returns, so it counts each refund once.
	_, err = d.refunds.Update(ctx, func(n int) int { return n + 1 })
	return refunded{receipt, cents}, err
}

// settled logs how a message ended.
func (d *desk) settled(_ context.Context, s *agent.Settlement) error {
	d.log.Info("message settled", "conversation", s.Address.ID, "outcome", string(s.Outcome), "attempts", s.Attempts, "tokens", s.Usage.Total)
	return nil
}
