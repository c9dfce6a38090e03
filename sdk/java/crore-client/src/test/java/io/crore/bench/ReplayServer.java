package io.crore.bench;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;

/**
 * A server that answers the first two messages of a WebSocket with WELCOME and SUBSCRIBED, and sends some
 * messages of 100 bytes as fast as they are read. Prints its port. Argument: how many messages.
 */
public final class ReplayServer {
  private static final int BATCH_BYTES = 128 * 1024;
  private static final int PAYLOAD_BYTES = 100;
  private static final String GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

  private ReplayServer() {}

  /** Ends with its standard input. */
  public static void main(String[] arguments) throws Exception {
    long count = Long.parseLong(arguments[0]);
    try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      System.out.println(server.getLocalPort());
      Thread end =
          new Thread(
              () -> {
                try {
                  while (System.in.read() >= 0) continue;
                } catch (IOException e) {
                  // The parent has ended.
                }
                System.exit(0);
              });
      end.start();
      for (; ; ) {
        Socket socket = server.accept();
        new Thread(() -> serve(socket, count)).start();
      }
    }
  }

  private static void serve(Socket socket, long count) {
    try (Socket it = socket) {
      it.setTcpNoDelay(true);
      InputStream in = new BufferedInputStream(it.getInputStream());
      OutputStream out = it.getOutputStream();
      accept(in, out);
      skip(in);
      skip(in);
      replay(out, count);
      // Until the peer leaves.
      while (in.read() >= 0) continue;
    } catch (Exception e) {
      // The peer has left.
    }
  }

  /** Reads a message of less than 126 bytes: HELLO, SUBSCRIBE. */
  private static void skip(InputStream in) throws IOException {
    in.read();
    for (int left = (in.read() & 127) + 4; left > 0; left--) in.read();
  }

  private static void accept(InputStream in, OutputStream out) throws Exception {
    StringBuilder head = new StringBuilder();
    while (head.indexOf("\r\n\r\n") < 0) head.append((char) in.read());
    String key = "";
    for (String line : head.toString().split("\r\n")) {
      if (line.toLowerCase().startsWith("sec-websocket-key:")) key = line.substring(line.indexOf(':') + 1).trim();
    }
    byte[] hash = MessageDigest.getInstance("SHA-1").digest((key + GUID).getBytes(StandardCharsets.US_ASCII));
    String answer =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Protocol: crore.v1\r\nSec-WebSocket-Accept: "
            + Base64.getEncoder().encodeToString(hash)
            + "\r\n\r\n";
    out.write(answer.getBytes(StandardCharsets.US_ASCII));
    out.flush();
  }

  private static void replay(OutputStream out, long count) throws IOException {
    ByteBuffer batch = ByteBuffer.allocate(BATCH_BYTES);
    frame(batch, new byte[] {(byte) 0x81, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    // Number 1 is alias 1, epoch 7, through 0.
    frame(batch, new byte[] {(byte) 0x82, 0, 1, 1, 7, 0});
    ByteBuffer message = ByteBuffer.allocate(PAYLOAD_BYTES + 24);
    byte[] payload = new byte[PAYLOAD_BYTES];
    for (long offset = 1; offset <= count; offset++) {
      message.clear();
      message.put((byte) 0x84).put((byte) 0);
      varint(message, 1);
      varint(message, offset);
      varint(message, 1);
      message.put(payload);
      if (batch.remaining() < message.position() + 4) {
        out.write(batch.array(), 0, batch.position());
        batch.clear();
      }
      batch.put((byte) 0x82).put((byte) message.position());
      batch.put(message.array(), 0, message.position());
    }
    out.write(batch.array(), 0, batch.position());
  }

  private static void frame(ByteBuffer batch, byte[] bytes) {
    batch.put((byte) 0x82).put((byte) bytes.length).put(bytes);
  }

  private static void varint(ByteBuffer to, long value) {
    for (; value > 127; value >>>= 7) to.put((byte) (value & 127 | 128));
    to.put((byte) value);
  }
}
