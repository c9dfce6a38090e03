package io.crore.server;

import static io.crore.support.Reading.answer;
import static io.crore.support.Reading.granted;
import static io.crore.support.Reading.history;
import static io.crore.support.Reading.texts;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.CroreException;
import io.crore.FileStorage;
import io.crore.HistoryOptions;
import io.crore.Message;
import io.crore.PublishOptions;
import io.crore.Published;
import io.crore.Storage;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import io.crore.support.Events;
import io.crore.support.Node;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What outlives the program: R11, P14, U13. */
@Timeout(400)
class StorageTest {
  @TempDir Path folder;

  private CroreBuilder builder(Node node) {
    return Crore.builder(node.url())
        .backoff(20, 200, 10_000, TimeUnit.MILLISECONDS)
        .storage(new FileStorage(folder.toFile()));
  }

  private int files() {
    return folder.toFile().list().length;
  }

  @ParameterizedTest
  @ValueSource(strings = {"a", "w/#"})
  void r11p14AStartResumesBehindWhatWasProcessed(String filter) throws Exception {
    String topic = filter.replace("#", "x");
    SubscribeOptions named = SubscribeOptions.live().name("reader of " + filter);
    try (Node node = Node.start(Node.ON_DISK)) {
      Events events = new Events();
      try (Crore first = builder(node).log(events).build()) {
        Subscription subscription = first.subscribe(filter, named);
        events.await("subscribed");
        for (String text : List.of("0", "1", "2", "3")) answer(first.publish(topic, text));
        // The program ends while it processes 1.
        assertEquals(List.of("0", "1"), texts(subscription, 2));
      }
      try (Crore other = Crore.connect(node.url())) {
        answer(other.publish(topic, "4"));
      }
      try (Crore second = builder(node).build()) {
        Subscription again = second.subscribe(filter, named);
        assertEquals(List.of("1", "2", "3", "4"), texts(again, 4));
        assertTrue(again.report().complete());
      }
    }
  }

  @Test
  void p14AListenerHasProcessedWhatItReturnedFrom() throws Exception {
    SubscribeOptions named = SubscribeOptions.live().name("listener");
    try (Node node = Node.start(Node.ON_DISK)) {
      CountDownLatch isHeld = new CountDownLatch(1);
      CountDownLatch release = new CountDownLatch(1);
      Events events = new Events();
      ExecutorService threads = Executors.newCachedThreadPool();
      Crore first = builder(node).log(events).executor(threads).build();
      first
          .subscribe("a", named)
          .listen(
              item -> {
                if (!(item instanceof Message) || ((Message) item).text().equals("0")) return;
                isHeld.countDown();
                release.await();
              });
      events.await("subscribed");
      for (String text : List.of("0", "1", "2")) answer(first.publish("a", text));
      isHeld.await();
      first.close();
      try (Crore second = builder(node).build()) {
        assertEquals(List.of("1", "2"), texts(second.subscribe("a", named), 2));
      }
      release.countDown();
      threads.shutdown();
      assertTrue(threads.awaitTermination(90, TimeUnit.SECONDS));
      // What the listener has processed since is stored, too.
      first.close();
    }
  }

  @Test
  void r11ASubscriptionThatGotNothingResumesWhereItBegan() throws Exception {
    SubscribeOptions named = SubscribeOptions.live().name("silent");
    try (Node node = Node.start(Node.ON_DISK)) {
      Events events = new Events();
      try (Crore first = builder(node).log(events).build()) {
        first.subscribe("a", named);
        events.await("subscribed");
      }
      try (Crore other = Crore.connect(node.url())) {
        answer(other.publish("a", "meanwhile"));
      }
      try (Crore second = builder(node).build()) {
        assertEquals(List.of("meanwhile"), texts(second.subscribe("a", named), 1));
      }
    }
  }

  @Test
  void r11StoredTicketsResumeASession() throws Exception {
    SubscribeOptions a = SubscribeOptions.live().name("a");
    SubscribeOptions b = SubscribeOptions.live().name("b");
    try (Node node = Node.start(Node.ON_DISK)) {
      Events events = new Events();
      try (Crore first = builder(node).storeTickets().log(events).build()) {
        first.subscribe("a", a);
        first.subscribe("b/#", b);
        events.await("ticket");
      }
      assertEquals(3, files(), "two positions and a ticket");
      try (Crore other = Crore.connect(node.url())) {
        answer(other.publish("a", "1"));
        answer(other.publish("b/c", "2"));
      }
      Events later = new Events();
      node.kill();
      CroreBuilder builder = builder(node).storeTickets().log(later);
      try (Crore second = builder.build()) {
        Subscription topic = second.subscribe("a", a);
        Subscription filter = second.subscribe("b/#", b);
        node.start();
        assertEquals(List.of("1"), texts(topic, 1));
        assertEquals(List.of("2"), texts(filter, 1));
        assertTrue(topic.report().complete() && filter.report().complete());
        later.await("ticket");
        assertEquals(0, later.count("ticket_refused"));
      }
    }
  }

  @Test
  void r11AStoredTicketHidesNothingThatWasNotProcessed() throws Exception {
    SubscribeOptions named = SubscribeOptions.live().name("a");
    try (Node node = Node.start(Node.ON_DISK)) {
      Events events = new Events();
      try (Crore first = builder(node).storeTickets().log(events).build()) {
        Subscription subscription = first.subscribe("a", named);
        granted(subscription);
        for (String text : List.of("0", "1", "2")) answer(first.publish("a", text));
        // The program ends while it processes 0; all three have come before the ticket.
        assertEquals(List.of("0"), texts(subscription, 1));
        events.await("ticket");
      }
      try (Crore second = builder(node).storeTickets().build()) {
        Subscription again = second.subscribe("a", named);
        assertEquals(List.of("0", "1", "2"), texts(again, 3));
        assertTrue(again.report().complete());
      }
    }
  }

  @Test
  void r11WithoutStoreTicketsNoneIsStored() throws Exception {
    try (Node node = Node.start(Node.ON_DISK)) {
      Events events = new Events();
      try (Crore client = builder(node).log(events).build()) {
        client.subscribe("a", SubscribeOptions.live().name("a"));
        events.await("ticket");
      }
      assertEquals(1, files());
    }
  }

  @Test
  void u13StoredPublicationsSurviveTheProgramAndAreInTheLogOnce() throws Exception {
    PublishOptions once = PublishOptions.none().once().tag("n", "1").contentType("text/plain").retain();
    try (Node node = Node.start(Node.ON_DISK)) {
      Crore first = builder(node).name("shop").persist().build();
      answer(first.publish("p", "0", once));
      node.kill();
      List<CompletableFuture<Published>> lost = new ArrayList<>();
      for (String text : List.of("1", "2", "3")) lost.add(first.publish("p", text, once));
      first.closeAsync(0, TimeUnit.SECONDS).get(90, TimeUnit.SECONDS);
      for (CompletableFuture<Published> it : lost) {
        ExecutionException error = assertThrows(ExecutionException.class, () -> it.get(90, TimeUnit.SECONDS));
        String name = ((CroreException) error.getCause()).name();
        assertTrue(Set.of(CroreException.CLOSED, CroreException.UNKNOWN).contains(name), name);
      }
      assertTrue(first.publish("p", "late", once).isCompletedExceptionally());
      node.start();
      try (Crore second = builder(node).name("shop").persist().build()) {
        answer(second.publish("p", "4", once));
        assertEquals(List.of("0", "1", "2", "3", "4"), history(second, "p", HistoryOptions.all()));
        Message message = second.history("p", HistoryOptions.all().newestFirst()).iterator().next();
        assertEquals("1 text/plain true", message.tag("n") + " " + message.contentType() + " " + message.retained());
      }
      assertEquals(1, files(), "only the producer is left");
    }
  }

  @Test
  void u13OverManyProgramsAndKillsEachIsInTheLogOnce() throws Exception {
    Set<String> expected = new TreeSet<>();
    PublishOptions once = PublishOptions.none().once();
    try (Node node = Node.start(Node.ON_DISK)) {
      for (int program = 0; program < 5; program++) {
        Crore client = builder(node).persist().build();
        CompletableFuture<Published> first = null;
        for (int at = 0; at < 50; at++) {
          String text = String.format("%d.%02d", program, at);
          expected.add(text);
          CompletableFuture<Published> call = client.publish("p", text, once);
          if (first == null) first = call;
        }
        answer(first);
        // Some are answered, some are on their way, some wait.
        if (program % 2 == 0) {
          node.kill();
          node.start();
        }
        client.closeAsync(0, TimeUnit.SECONDS).get(90, TimeUnit.SECONDS);
      }
      try (Crore last = builder(node).persist().build()) {
        answer(last.publish("p", "the end", once));
        List<String> logged = history(last, "p", HistoryOptions.all());
        assertEquals(expected.size() + 1, logged.size());
        logged.remove("the end");
        assertEquals(expected, new TreeSet<>(logged));
      }
    }
  }

  /** Cannot be used. */
  private static final class Broken implements Storage {
    @Override
    public String get(String key) {
      return null;
    }

    @Override
    public void set(String key, String value) throws IOException {
      throw new IOException("full");
    }

    @Override
    public void delete(String key) throws IOException {
      throw new IOException("full");
    }
  }

  @Test
  void u13WhatCannotBeStoredIsNotSent() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = Crore.builder(node.url()).storage(new Broken()).persist().build()) {
      CompletableFuture<Published> call = client.publish("p", "x", PublishOptions.none().once());
      ExecutionException error = assertThrows(ExecutionException.class, () -> call.get(90, TimeUnit.SECONDS));
      assertTrue(error.getCause() instanceof IllegalStateException, error::toString);
      answer(client.publish("p", "y"));
      assertEquals(List.of("y"), history(client, "p", HistoryOptions.all()));
    }
  }

  @Test
  void x5AStorageThatFailsHarmsNoSubscription() throws Exception {
    Events events = new Events();
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = Crore.builder(node.url()).storage(new Broken()).log(events).build()) {
      Subscription subscription = client.subscribe("a", SubscribeOptions.live().name("reader"));
      granted(subscription);
      answer(client.publish("a", "x"));
      assertEquals(List.of("x"), texts(subscription, 1));
      events.await("callback_failed");
    }
  }

  @Test
  void aNameOrPersistNeedsAStorage() {
    CroreBuilder builder = Crore.builder("ws://127.0.0.1:9");
    CroreException error = assertThrows(CroreException.class, () -> builder.persist().build());
    assertEquals(CroreException.INVALID_ARGUMENT, error.name());
    try (Crore client = Crore.connect("ws://127.0.0.1:9")) {
      SubscribeOptions named = SubscribeOptions.live().name("x");
      assertThrows(CroreException.class, () -> client.subscribe("a", named));
    }
  }

  @Test
  void filesKeepAnyKeyAndValue() throws Exception {
    FileStorage storage = new FileStorage(folder.resolve("made").toFile());
    for (String key : List.of("a:b/c", "..", "*", "ä")) {
      assertNull(storage.get(key));
      storage.set(key, "1");
      storage.set(key, key + "\n");
      assertEquals(key + "\n", storage.get(key));
      storage.delete(key);
      storage.delete(key);
      assertNull(storage.get(key));
    }
  }
}
