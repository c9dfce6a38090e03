// Fleet shows telemetry of vehicles: each vehicle is a client that publishes where it is, and one
// client watches all of them.
//
//	crore serve                 # in another terminal
//	go run ./examples/fleet -vehicles 20 -for 1m
//
// Stop the server and start it again in between: no report of a vehicle is lost or comes twice.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"sort"
	"sync"
	"time"

	crore "github.com/crore/crore/sdk/go"
)

// report is what a vehicle says of itself.
type report struct {
	Number    int     `json:"number"`
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
	SpeedKmh  float64 `json:"speed_kmh"`
	FuelLitre float64 `json:"fuel_litre"`
}

func main() {
	url := flag.String("url", "ws://localhost:8800", "address of the server")
	token := flag.String("token", os.Getenv("CRORE_TOKEN"), "token, if the server wants one")
	vehicles := flag.Int("vehicles", 10, "number of vehicles")
	every := flag.Duration("every", time.Second, "time between two reports of a vehicle")
	duration := flag.Duration("for", time.Minute, "time after which the vehicles stop")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	options := crore.Options{Token: *token, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if err := run(ctx, []string{*url}, options, *vehicles, *every, *duration); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run watches the fleet until all its vehicles have stopped and all their reports have come.
func run(ctx context.Context, urls []string, options crore.Options, vehicles int, every, duration time.Duration) error {
	watcher, err := crore.Dial(ctx, urls, options)
	if err != nil {
		return err
	}
	defer watcher.Close(context.Background())
	reports, err := watcher.Subscribe(ctx, "fleet/+/report")
	if err != nil {
		return err
	}
	// The watch begins before the first vehicle does.
	if err := reports.Ready(ctx); err != nil {
		return err
	}
	sent := make(chan int, 1)
	go func() { sent <- driveAll(ctx, urls, options, vehicles, every, duration) }()
	return watch(ctx, reports, sent)
}

// driveAll drives all vehicles and returns the number of their reports.
func driveAll(ctx context.Context, urls []string, options crore.Options, vehicles int, every, duration time.Duration) int {
	driving, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	counts := make([]int, vehicles)
	var group sync.WaitGroup
	for number := range vehicles {
		group.Add(1)
		go func() {
			defer group.Done()
			name := fmt.Sprintf("vehicle-%d", number+1)
			options := options
			options.Name, options.Logger = name, nil
			count, err := drive(driving, urls, options, name, every)
			if err != nil {
				fmt.Fprintln(os.Stderr, name, err)
			}
			counts[number] = count
		}()
	}
	group.Wait()
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}

// drive publishes reports of one vehicle until the context ends, and returns their number. Tunnels
// are no problem: reports wait for the connection, and each is in the log exactly once.
func drive(ctx context.Context, urls []string, options crore.Options, name string, every time.Duration) (int, error) {
	client, err := crore.New(urls, options)
	if err != nil {
		return 0, err
	}
	defer client.Close(context.Background())
	now := report{Latitude: 52.5 + rand.Float64(), Longitude: 13.4 + rand.Float64(), FuelLitre: 60}
	var unanswered []*crore.Publication
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		now.Number++
		now.SpeedKmh = 50 + 40*math.Sin(float64(now.Number)/10)
		now.Longitude += now.SpeedKmh / 250_000
		now.FuelLitre -= 0.01
		data, err := json.Marshal(now)
		if err != nil {
			return now.Number, err
		}
		unanswered = append(unanswered, client.PublishAsync("fleet/"+name+"/report", data, crore.Once(),
			crore.ContentType("application/json")))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	for _, one := range unanswered {
		if _, err := one.Wait(context.Background()); err != nil {
			return now.Number, err
		}
	}
	return now.Number, nil
}

// watch counts the reports of each vehicle until all that were sent have come, then prints them.
func watch(ctx context.Context, reports *crore.Subscription, sent <-chan int) error {
	last := make(map[string]report)
	received, wanted := 0, -1
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan *crore.Message)
	failed := make(chan error, 1)
	go func() {
		for message, err := range reports.Messages(reading) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case messages <- message:
			case <-reading.Done():
				return
			}
		}
	}()
	for received != wanted {
		select {
		case wanted = <-sent:
		case err := <-failed:
			var gap *crore.GapError
			if errors.As(err, &gap) {
				return fmt.Errorf("the record of the fleet has a hole: %w", err)
			}
			return err
		case message := <-messages:
			var it report
			if err := message.JSON(&it); err != nil {
				return fmt.Errorf("%s at %s: %w", message.Topic, message.Position, err)
			}
			if before := last[message.Topic].Number; it.Number != before+1 {
				return fmt.Errorf("%s: report %d follows report %d", message.Topic, it.Number, before)
			}
			last[message.Topic] = it
			received++
		}
	}
	topics := make([]string, 0, len(last))
	for topic := range last {
		topics = append(topics, topic)
	}
	sort.Strings(topics)
	for _, topic := range topics {
		it := last[topic]
		fmt.Printf("%-28s %5d reports  %8.4f %8.4f  %3.0f km/h  %5.2f l\n",
			topic, it.Number, it.Latitude, it.Longitude, it.SpeedKmh, it.FuelLitre)
	}
	fmt.Printf("%d reports of %d vehicles, complete: %v\n", received, len(last), reports.Report().Complete)
	return nil
}
