import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3BlockingClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5BlockingClient;
import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;

/**
 * HiveMQ's and Eclipse Paho's clients for Java, and one session of each over a {@code kill -9} of the
 * node: {@code java -cp JARS Sessions.java hivemq|paho 3.1.1|5 NAME HOST:PORT}. sessions.py says what
 * a program does.
 */
final class Sessions {
  private static final int COUNT = 100;
  private static final int PATIENCE_S = 60;
  private static final BlockingQueue<String> received = new LinkedBlockingQueue<>();

  /** A client of any of the libraries. */
  private interface Client {
    /** Connects to its session; says whether the session was there. */
    boolean connect(String host, int port) throws Exception;

    void subscribe(String topic) throws Exception;

    void publish(String topic, String text, int qos) throws Exception;

    void disconnect() throws Exception;
  }

  public static void main(String[] words) throws Exception {
    // Paho writes a line for each PUBREL.
    LogManager.getLogManager().reset();
    String kind = words[0] + " " + words[1];
    String name = words[2];
    String topic = "sessions/" + name;
    Client reader = client(kind, name);
    demand(!connect(reader, words[3]), "a new session was there before");
    reader.subscribe(topic);
    for (int qos = 0; qos < 3; qos++) {
      for (int number = 0; number < COUNT; number++) {
        reader.publish(topic, qos + "-" + number, qos);
      }
      expect(qos + "-");
    }
    reader.disconnect();
    Client writer = client(kind, name + "-writer");
    connect(writer, words[3]);
    for (int number = 0; number < COUNT; number++) {
      writer.publish(topic, "away-" + number, 1);
    }
    writer.disconnect();
    System.out.println("away");
    String address = new Scanner(System.in).nextLine();
    Client again = client(kind, name);
    demand(connect(again, address), "the session is gone");
    expect("away-");
    again.disconnect();
    System.out.println("done");
    System.exit(0);
  }

  private static boolean connect(Client client, String address) throws Exception {
    int colon = address.lastIndexOf(':');
    return client.connect(
        address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
  }

  private static Client client(String kind, String name) {
    switch (kind) {
      case "hivemq 3.1.1":
        return new HiveThree(name);
      case "hivemq 5":
        return new HiveFive(name);
      case "paho 3.1.1":
        return new PahoThree(name);
      case "paho 5":
        return new PahoFive(name);
      default:
        throw new IllegalArgumentException(kind);
    }
  }

  /** Waits for all messages of a kind, in order. Others may come again: they have QoS 1 at most. */
  private static void expect(String prefix) throws InterruptedException {
    for (int number = 0; number < COUNT; ) {
      String text = received.poll(PATIENCE_S, TimeUnit.SECONDS);
      demand(text != null, (COUNT - number) + " messages " + prefix + " are missing");
      if (text.startsWith(prefix)) {
        demand(text.equals(prefix + number), "expected " + prefix + number + ", got " + text);
        number++;
      }
    }
  }

  private static void demand(boolean is, String text) {
    if (!is) {
      System.err.println(text);
      System.exit(1);
    }
  }

  private static void receive(byte[] payload) {
    received.add(new String(payload, StandardCharsets.UTF_8));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static final class HiveThree implements Client {
    private final String name;
    private Mqtt3BlockingClient client;

    HiveThree(String name) {
      this.name = name;
    }

    @Override
    public boolean connect(String host, int port) {
      var builder = com.hivemq.client.mqtt.MqttClient.builder().useMqttVersion3();
      client = builder.identifier(name).serverHost(host).serverPort(port).buildBlocking();
      client.toAsync()
          .publishes(MqttGlobalPublishFilter.ALL, message -> receive(message.getPayloadAsBytes()));
      return client.connectWith().cleanSession(false).send().isSessionPresent();
    }

    @Override
    public void subscribe(String topic) {
      client.subscribeWith().topicFilter(topic).qos(MqttQos.EXACTLY_ONCE).send();
    }

    @Override
    public void publish(String topic, String text, int qos) {
      client.publishWith().topic(topic).qos(MqttQos.fromCode(qos)).payload(bytes(text)).send();
    }

    @Override
    public void disconnect() {
      client.disconnect();
    }
  }

  private static final class HiveFive implements Client {
    private final String name;
    private Mqtt5BlockingClient client;

    HiveFive(String name) {
      this.name = name;
    }

    @Override
    public boolean connect(String host, int port) {
      var builder = com.hivemq.client.mqtt.MqttClient.builder().useMqttVersion5();
      client = builder.identifier(name).serverHost(host).serverPort(port).buildBlocking();
      client.toAsync()
          .publishes(MqttGlobalPublishFilter.ALL, message -> receive(message.getPayloadAsBytes()));
      return client.connectWith().cleanStart(false).sessionExpiryInterval(300).send()
          .isSessionPresent();
    }

    @Override
    public void subscribe(String topic) {
      client.subscribeWith().topicFilter(topic).qos(MqttQos.EXACTLY_ONCE).send();
    }

    @Override
    public void publish(String topic, String text, int qos) {
      client.publishWith().topic(topic).qos(MqttQos.fromCode(qos)).payload(bytes(text)).send();
    }

    @Override
    public void disconnect() {
      client.disconnect();
    }
  }

  private static final class PahoThree implements Client {
    private final String name;
    private org.eclipse.paho.client.mqttv3.MqttClient client;

    PahoThree(String name) {
      this.name = name;
    }

    @Override
    public boolean connect(String host, int port) throws Exception {
      var store = new org.eclipse.paho.client.mqttv3.persist.MemoryPersistence();
      String url = "tcp://" + host + ":" + port;
      client = new org.eclipse.paho.client.mqttv3.MqttClient(url, name, store);
      client.setCallback(new org.eclipse.paho.client.mqttv3.MqttCallback() {
        @Override
        public void connectionLost(Throwable cause) {}

        @Override
        public void messageArrived(
            String topic, org.eclipse.paho.client.mqttv3.MqttMessage message) {
          receive(message.getPayload());
        }

        @Override
        public void deliveryComplete(org.eclipse.paho.client.mqttv3.IMqttDeliveryToken token) {}
      });
      var options = new org.eclipse.paho.client.mqttv3.MqttConnectOptions();
      options.setCleanSession(false);
      options.setMqttVersion(4);
      // The client refuses publications beyond this number of open ones.
      options.setMaxInflight(COUNT);
      return client.connectWithResult(options).getSessionPresent();
    }

    @Override
    public void subscribe(String topic) throws Exception {
      client.subscribe(topic, 2);
    }

    @Override
    public void publish(String topic, String text, int qos) throws Exception {
      client.publish(topic, bytes(text), qos, false);
    }

    @Override
    public void disconnect() throws Exception {
      client.disconnect();
    }
  }

  private static final class PahoFive implements Client {
    private final String name;
    private org.eclipse.paho.mqttv5.client.MqttClient client;

    PahoFive(String name) {
      this.name = name;
    }

    @Override
    public boolean connect(String host, int port) throws Exception {
      var store = new org.eclipse.paho.mqttv5.client.persist.MemoryPersistence();
      String url = "tcp://" + host + ":" + port;
      client = new org.eclipse.paho.mqttv5.client.MqttClient(url, name, store);
      client.setCallback(new PahoFiveCallback());
      var options = new org.eclipse.paho.mqttv5.client.MqttConnectionOptions();
      options.setCleanStart(false);
      options.setSessionExpiryInterval(300L);
      return client.connectWithResult(options).getSessionPresent();
    }

    @Override
    public void subscribe(String topic) throws Exception {
      client.subscribe(topic, 2);
    }

    @Override
    public void publish(String topic, String text, int qos) throws Exception {
      client.publish(topic, bytes(text), qos, false);
    }

    @Override
    public void disconnect() throws Exception {
      client.disconnect();
    }
  }

  private static final class PahoFiveCallback
      implements org.eclipse.paho.mqttv5.client.MqttCallback {
    @Override
    public void disconnected(
        org.eclipse.paho.mqttv5.client.MqttDisconnectResponse disconnectResponse) {}

    @Override
    public void mqttErrorOccurred(org.eclipse.paho.mqttv5.common.MqttException exception) {}

    @Override
    public void messageArrived(
        String topic, org.eclipse.paho.mqttv5.common.MqttMessage message) {
      receive(message.getPayload());
    }

    @Override
    public void deliveryComplete(org.eclipse.paho.mqttv5.client.IMqttToken token) {}

    @Override
    public void connectComplete(boolean reconnect, String serverUri) {}

    @Override
    public void authPacketArrived(
        int reasonCode, org.eclipse.paho.mqttv5.common.packet.MqttProperties properties) {}
  }
}
