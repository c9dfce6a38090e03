package crore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	crore "github.com/crore/crore/sdk/go"
)

// url is the address of a node, such as ws://localhost:8800.
func url() string { return crore.ExampleURL() }

func ExampleDial() {
	ctx := context.Background()
	client, err := crore.Dial(ctx, []string{url()}, crore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	prices, err := client.Subscribe(ctx, "prices/eur")
	if err != nil {
		log.Fatal(err)
	}
	if err := prices.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	client.PublishAsync("prices/eur", []byte("1.08"))
	message, err := prices.Receive(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(message.Topic, message.Text())
	// Output: prices/eur 1.08
}

func ExampleClient_Publish() {
	ctx := context.Background()
	client, err := crore.Dial(ctx, []string{url()}, crore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	first, err := client.Publish(ctx, "orders/7", []byte("paid"), crore.OnceKey([]byte("payment 4711")))
	if err != nil {
		log.Fatal(err)
	}
	// Another program repeats it: the log has it once.
	again, err := client.Publish(ctx, "orders/7", []byte("paid"), crore.OnceKey([]byte("payment 4711")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Position == first.Position, again.Duplicate)
	_, err = client.Publish(ctx, "$sys/orders", nil)
	var refused *crore.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Name)
	}
	// Output:
	// true true
	// forbidden
}

func ExampleSubscription_Items() {
	ctx := context.Background()
	client, err := crore.Dial(ctx, []string{url()}, crore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	for _, text := range []string{"21.5", "21.7"} {
		if _, err := client.Publish(ctx, "sensors/hall", []byte(text), crore.WithTag("unit", "degree")); err != nil {
			log.Fatal(err)
		}
	}
	sensors, err := client.Subscribe(ctx, "sensors/hall", crore.Last(2))
	if err != nil {
		log.Fatal(err)
	}
	for item, err := range sensors.Items(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch item := item.(type) {
		case *crore.Message:
			unit, _ := item.Tag("unit")
			fmt.Println(item.Text(), unit)
		case *crore.Gap:
			fmt.Println("missing: behind", item.From, "up to", item.To)
		case *crore.Skipped:
			fmt.Println("left out on purpose:", item.Reason)
		case *crore.CaughtUp:
			fmt.Println("everything has come; complete:", sensors.Report().Complete)
			sensors.Close()
		}
	}
	// Output:
	// 21.5 degree
	// 21.7 degree
	// everything has come; complete: true
}

func ExampleSubscription_Messages() {
	ctx := context.Background()
	client, err := crore.Dial(ctx, []string{url()}, crore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	published, err := client.Publish(ctx, "chat/room", []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	// A position of a log that is gone: what is missing is unknown, and comes as a gap.
	old := crore.Position{Epoch: published.Position.Epoch - 1, Offset: 40}
	room, err := client.Subscribe(ctx, "chat/room", crore.Since(old))
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range room.Messages(ctx) {
		var gap *crore.GapError
		if errors.As(err, &gap) {
			fmt.Println("a gap; cause:", gap.Gap.Cause)
		}
	}
	fmt.Println("complete:", room.Report().Complete)
	// Output:
	// a gap; cause: unknown_epoch
	// complete: false
}

func ExampleClient_History() {
	ctx := context.Background()
	client, err := crore.Dial(ctx, []string{url()}, crore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	for _, text := range []string{"one", "two", "three"} {
		if _, err := client.Publish(ctx, "log/lines", []byte(text)); err != nil {
			log.Fatal(err)
		}
	}
	for message, err := range client.History(ctx, "log/lines", crore.HistoryOptions{Reverse: true, Limit: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.Text())
	}
	// Output:
	// three
	// two
}

func ExampleNamed() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "billing-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	// run is a program that reads some messages, and ends.
	run := func(count int) {
		client, err := crore.Dial(ctx, []string{url()}, crore.Options{Storage: crore.FileStorage(folder)})
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close(ctx)
		bills, err := client.Subscribe(ctx, "bills", crore.Named("billing"))
		if err == nil {
			err = bills.Ready(ctx)
		}
		if err != nil {
			log.Fatal(err)
		}
		for number := range count {
			client.PublishAsync("bills", []byte{'a' + byte(number)})
		}
		for number := range 2 {
			message, err := bills.Receive(ctx)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(message.Text())
			if number == 1 {
				return // this one was not processed: it comes again
			}
		}
	}
	run(3)
	run(0)
	// Output:
	// a
	// b
	// b
	// c
}
