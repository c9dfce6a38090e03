// Eclipse Paho's two clients for Go, and one session of each over a `kill -9` of the node.
//
//	clients VERSION NAME HOST:PORT
//
// The version is 3.1.1 or 5; sessions.py says what the program does.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	paho5 "github.com/eclipse/paho.golang/paho"
	paho3 "github.com/eclipse/paho.mqtt.golang"
)

const (
	count    = 100
	patience = 60 * time.Second
)

// A client of either library.
type client interface {
	// Connects to its session; says whether the session was there.
	connect(address string) bool
	subscribe(topic string)
	publish(topic, text string, qos byte)
	disconnect()
}

func main() {
	version, name, address := os.Args[1], os.Args[2], os.Args[3]
	received := make(chan string, 10*count)
	dial := func(name string) client {
		if version == "5" {
			return &five{name: name, received: received}
		}
		return &three{name: name, received: received}
	}
	topic := "sessions/" + name
	reader := dial(name)
	demand(!reader.connect(address), "a new session was there before")
	reader.subscribe(topic)
	for qos := byte(0); qos < 3; qos++ {
		for number := 0; number < count; number++ {
			reader.publish(topic, fmt.Sprintf("%d-%d", qos, number), qos)
		}
		expect(received, fmt.Sprintf("%d-", qos))
	}
	reader.disconnect()
	writer := dial(name + "-writer")
	writer.connect(address)
	for number := 0; number < count; number++ {
		writer.publish(topic, fmt.Sprintf("away-%d", number), 1)
	}
	writer.disconnect()
	fmt.Println("away")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	again := dial(name)
	demand(again.connect(strings.TrimSpace(line)), "the session is gone")
	expect(received, "away-")
	again.disconnect()
	fmt.Println("done")
}

// Waits for all messages of a kind, in order. Others may come again: they have QoS 1 at most.
func expect(received chan string, prefix string) {
	late := time.After(patience)
	for number := 0; number < count; {
		select {
		case text := <-received:
			if strings.HasPrefix(text, prefix) {
				wanted := fmt.Sprintf("%s%d", prefix, number)
				demand(text == wanted, "expected "+wanted+", got "+text)
				number++
			}
		case <-late:
			demand(false, fmt.Sprintf("%d messages %s are missing", count-number, prefix))
		}
	}
}

// paho.golang, for MQTT 5.
type five struct {
	name     string
	received chan string
	client   *paho5.Client
}

func (c *five) connect(address string) bool {
	socket, err := net.Dial("tcp", address)
	check(err)
	c.client = paho5.NewClient(paho5.ClientConfig{
		Conn: socket,
		OnPublishReceived: []func(paho5.PublishReceived) (bool, error){
			func(message paho5.PublishReceived) (bool, error) {
				c.received <- string(message.Packet.Payload)
				return true, nil
			},
		},
	})
	expiry := uint32(300)
	answer, err := c.client.Connect(context.Background(), &paho5.Connect{
		ClientID:   c.name,
		KeepAlive:  60,
		Properties: &paho5.ConnectProperties{SessionExpiryInterval: &expiry},
	})
	check(err)
	return answer.SessionPresent
}

func (c *five) subscribe(topic string) {
	options := []paho5.SubscribeOptions{{Topic: topic, QoS: 2}}
	_, err := c.client.Subscribe(context.Background(), &paho5.Subscribe{Subscriptions: options})
	check(err)
}

func (c *five) publish(topic, text string, qos byte) {
	message := &paho5.Publish{Topic: topic, QoS: qos, Payload: []byte(text)}
	_, err := c.client.Publish(context.Background(), message)
	check(err)
}

func (c *five) disconnect() {
	check(c.client.Disconnect(&paho5.Disconnect{}))
}

// paho.mqtt.golang, for MQTT 3.1.1. Version 3.1 does not say whether a session was there.
type three struct {
	name     string
	received chan string
	client   paho3.Client
}

func (c *three) connect(address string) bool {
	options := paho3.NewClientOptions().AddBroker("tcp://" + address).SetClientID(c.name)
	options.SetCleanSession(false).SetAutoReconnect(false)
	options.SetProtocolVersion(4)
	options.SetDefaultPublishHandler(func(_ paho3.Client, message paho3.Message) {
		c.received <- string(message.Payload())
	})
	c.client = paho3.NewClient(options)
	token := c.client.Connect()
	wait(token)
	return token.(*paho3.ConnectToken).SessionPresent()
}

func (c *three) subscribe(topic string) {
	wait(c.client.Subscribe(topic, 2, nil))
}

func (c *three) publish(topic, text string, qos byte) {
	wait(c.client.Publish(topic, qos, false, text))
}

func (c *three) disconnect() {
	c.client.Disconnect(250)
}

func wait(token paho3.Token) {
	demand(token.WaitTimeout(patience), "no answer")
	check(token.Error())
}

func check(err error) {
	if err != nil {
		demand(false, err.Error())
	}
}

func demand(is bool, text string) {
	if !is {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(1)
	}
}
