//! Questions about topics and the cluster, and the creation of topics. Each answer is an event in
//! the queue that the question names.

use crate::client::{Client, Error, borrowed_error, c_string, code_text, text_of};
use crate::consumer::c_strings;
use crate::queue::{Queue, lent};
use rdkafka_sys as sys;
use std::ffi::{CString, c_char, c_int};

/// A topic as the cluster describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicDescription {
    /// The name.
    pub name: String,
    /// The error, for instance that there is no such topic.
    pub result: Result<(), Error>,
    /// The topic's identity, which a topic of the same name after a deletion does not have; 0 from
    /// brokers before Kafka 2.8.
    pub id: u128,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionDescription>,
}

/// A partition as the cluster describes it. Brokers have numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionDescription {
    /// The number in the topic.
    pub partition: i32,
    /// The broker that leads it; none during an election.
    pub leader: Option<i32>,
    /// Brokers with a complete copy.
    pub in_sync: Vec<i32>,
    /// Brokers that should have a copy.
    pub replicas: Vec<i32>,
}

/// The cluster as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterDescription {
    /// Its identity.
    pub id: String,
    /// The number of its living brokers.
    pub brokers: usize,
}

/// The name of a topic, and the result of a command about it.
pub type TopicResult = (String, Result<(), Error>);

/// A topic to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTopic {
    /// The name.
    pub name: String,
    /// The number of partitions.
    pub partitions: i32,
    /// Copies of each partition.
    pub replicas: i32,
    /// Names and values.
    pub options: Vec<(String, String)>,
}

impl Client {
    /// Asks for descriptions of topics.
    pub fn describe_topics(&self, names: &[&str], timeout_ms: i32, note: u64, queue: &Queue) {
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let names = c_strings(names.iter().copied());
        let mut names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let options = self.options(RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout_ms, note);
        // SAFETY: all are valid; librdkafka copies names and options.
        unsafe {
            let topics =
                sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
            sys::rd_kafka_DescribeTopics(self.raw(), topics, options.0, queue.raw());
            sys::rd_kafka_TopicCollection_destroy(topics);
        }
    }

    /// Asks for a description of the cluster.
    pub fn describe_cluster(&self, timeout_ms: i32, queue: &Queue) {
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER;
        let options = self.options(RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER, timeout_ms, 0);
        // SAFETY: all are valid.
        unsafe { sys::rd_kafka_DescribeCluster(self.raw(), options.0, queue.raw()) };
    }

    /// Asks for all options of a topic.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn describe_topic_options(
        &self,
        name: &str,
        timeout_ms: i32,
        note: u64,
        queue: &Queue,
    ) -> Result<(), Error> {
        use sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS;
        let name = c_string(name)?;
        let options = self.options(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout_ms, note);
        // SAFETY: all are valid; librdkafka copies the resource.
        unsafe {
            let mut resource =
                sys::rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name.as_ptr());
            let resources = &raw mut resource;
            sys::rd_kafka_DescribeConfigs(self.raw(), resources, 1, options.0, queue.raw());
            sys::rd_kafka_ConfigResource_destroy(resource);
        }
        Ok(())
    }

    /// Creates topics.
    ///
    /// # Errors
    /// A topic that librdkafka refuses; then none is created.
    pub fn create_topics(
        &self,
        topics: &[NewTopic],
        timeout_ms: i32,
        queue: &Queue,
    ) -> Result<(), Error> {
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_CREATETOPICS;
        let owned = topics.iter().map(OwnedTopic::of).collect::<Result<Vec<_>, _>>()?;
        let mut raw: Vec<_> = owned.iter().map(|topic| topic.0).collect();
        let options = self.options(RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout_ms, 0);
        let mut text = [0; 512];
        // SAFETY: all are valid; librdkafka copies the topics.
        unsafe {
            sys::rd_kafka_AdminOptions_set_operation_timeout(
                options.0,
                timeout_ms,
                text.as_mut_ptr(),
                text.len(),
            );
            let (start, count) = (raw.as_mut_ptr(), raw.len());
            sys::rd_kafka_CreateTopics(self.raw(), start, count, options.0, queue.raw());
        }
        Ok(())
    }

    /// Deletes a topic with its records.
    ///
    /// # Errors
    /// The name is not valid.
    pub fn delete_topic(&self, name: &str, timeout_ms: i32, queue: &Queue) -> Result<(), Error> {
        use sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DELETETOPICS;
        let name = c_string(name)?;
        let options = self.options(RD_KAFKA_ADMIN_OP_DELETETOPICS, timeout_ms, 0);
        // SAFETY: all are valid; librdkafka copies the topic.
        unsafe {
            let mut topic = sys::rd_kafka_DeleteTopic_new(name.as_ptr());
            sys::rd_kafka_DeleteTopics(self.raw(), &raw mut topic, 1, options.0, queue.raw());
            sys::rd_kafka_DeleteTopic_destroy(topic);
        }
        Ok(())
    }
}

impl TopicDescription {
    /// # Safety
    /// `event` is the result of DescribeTopics.
    pub(crate) unsafe fn all(event: *mut sys::rd_kafka_event_t) -> Vec<TopicDescription> {
        // SAFETY: the caller's promise; all that is lent lives as long as the event.
        unsafe {
            let result = sys::rd_kafka_event_DescribeTopics_result(event);
            let mut count = 0;
            let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
            let topics = lent(topics.cast_const(), count).iter();
            topics.map(|topic| TopicDescription::of(*topic)).collect()
        }
    }

    /// # Safety
    /// `topic` is valid.
    unsafe fn of(topic: *const sys::rd_kafka_TopicDescription_t) -> TopicDescription {
        // SAFETY: the caller's promise.
        unsafe {
            let mut count = 0;
            let partitions = sys::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
            let partitions = lent(partitions.cast_const(), count).iter();
            let id = sys::rd_kafka_TopicDescription_topic_id(topic);
            let id = if id.is_null() {
                0
            } else {
                let high = sys::rd_kafka_Uuid_most_significant_bits(id).cast_unsigned();
                let low = sys::rd_kafka_Uuid_least_significant_bits(id).cast_unsigned();
                u128::from(high) << 64 | u128::from(low)
            };
            let mut partitions: Vec<_> =
                partitions.map(|it| PartitionDescription::of(*it)).collect();
            partitions.sort_by_key(|it| it.partition);
            TopicDescription {
                name: text_of(sys::rd_kafka_TopicDescription_name(topic)),
                result: borrowed_error(sys::rd_kafka_TopicDescription_error(topic)),
                id,
                partitions,
            }
        }
    }
}

impl PartitionDescription {
    /// # Safety
    /// `partition` is valid.
    unsafe fn of(partition: *const sys::rd_kafka_TopicPartitionInfo_t) -> PartitionDescription {
        // SAFETY: the caller's promise.
        unsafe {
            let leader = sys::rd_kafka_TopicPartitionInfo_leader(partition);
            let leader = (!leader.is_null()).then(|| sys::rd_kafka_Node_id(leader));
            let (mut in_sync_count, mut replicas_count) = (0, 0);
            let in_sync = sys::rd_kafka_TopicPartitionInfo_isr(partition, &raw mut in_sync_count);
            let replicas =
                sys::rd_kafka_TopicPartitionInfo_replicas(partition, &raw mut replicas_count);
            let id = |node: &*const sys::rd_kafka_Node_t| sys::rd_kafka_Node_id(*node);
            PartitionDescription {
                partition: sys::rd_kafka_TopicPartitionInfo_partition(partition),
                leader: leader.filter(|id| *id >= 0),
                in_sync: lent(in_sync.cast_const(), in_sync_count).iter().map(id).collect(),
                replicas: lent(replicas.cast_const(), replicas_count).iter().map(id).collect(),
            }
        }
    }
}

impl ClusterDescription {
    /// # Safety
    /// `event` is the result of DescribeCluster.
    pub(crate) unsafe fn of(event: *mut sys::rd_kafka_event_t) -> ClusterDescription {
        // SAFETY: the caller's promise.
        unsafe {
            let result = sys::rd_kafka_event_DescribeCluster_result(event);
            let mut brokers = 0;
            sys::rd_kafka_DescribeCluster_result_nodes(result, &raw mut brokers);
            let id = text_of(sys::rd_kafka_DescribeCluster_result_cluster_id(result));
            ClusterDescription { id, brokers }
        }
    }
}

/// # Safety
/// `event` is the result of CreateTopics.
pub(crate) unsafe fn created(event: *mut sys::rd_kafka_event_t) -> Vec<TopicResult> {
    // SAFETY: the caller's promise.
    unsafe {
        let result = sys::rd_kafka_event_CreateTopics_result(event);
        let mut count = 0;
        let topics = sys::rd_kafka_CreateTopics_result_topics(result, &raw mut count);
        topic_results(topics, count)
    }
}

/// # Safety
/// `event` is the result of DeleteTopics.
pub(crate) unsafe fn deleted(event: *mut sys::rd_kafka_event_t) -> Vec<TopicResult> {
    // SAFETY: the caller's promise.
    unsafe {
        let result = sys::rd_kafka_event_DeleteTopics_result(event);
        let mut count = 0;
        let topics = sys::rd_kafka_DeleteTopics_result_topics(result, &raw mut count);
        topic_results(topics, count)
    }
}

/// # Safety
/// `start` points to `count` valid results.
unsafe fn topic_results(
    start: *mut *const sys::rd_kafka_topic_result_t,
    count: usize,
) -> Vec<TopicResult> {
    // SAFETY: the caller's promise.
    unsafe {
        let result = |topic: &*const sys::rd_kafka_topic_result_t| {
            let name = text_of(sys::rd_kafka_topic_result_name(*topic));
            let code = topic_result_error(*topic);
            let text = text_of(sys::rd_kafka_topic_result_error_string(*topic));
            (name, named(code, text))
        };
        lent(start.cast_const(), count).iter().map(result).collect()
    }
}

/// # Safety
/// `event` is the result of DescribeConfigs for one resource.
pub(crate) unsafe fn options(
    event: *mut sys::rd_kafka_event_t,
) -> Result<Vec<(String, String)>, Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let result = sys::rd_kafka_event_DescribeConfigs_result(event);
        let mut count = 0;
        let resources = sys::rd_kafka_DescribeConfigs_result_resources(result, &raw mut count);
        let mut options = Vec::new();
        for resource in lent(resources.cast_const(), count) {
            let text = text_of(sys::rd_kafka_ConfigResource_error_string(*resource));
            named(resource_error(*resource), text)?;
            let mut entries = 0;
            let start = sys::rd_kafka_ConfigResource_configs(*resource, &raw mut entries);
            for entry in lent(start.cast_const(), entries) {
                let name = text_of(sys::rd_kafka_ConfigEntry_name(*entry));
                options.push((name, text_of(sys::rd_kafka_ConfigEntry_value(*entry))));
            }
        }
        Ok(options)
    }
}

fn named(code: c_int, text: String) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        code => Err(Error { code, text: if text.is_empty() { code_text(code) } else { text } }),
    }
}

/// A topic to create, which we own.
struct OwnedTopic(*mut sys::rd_kafka_NewTopic_t);

impl OwnedTopic {
    fn of(topic: &NewTopic) -> Result<OwnedTopic, Error> {
        let name = c_string(&topic.name)?;
        let mut text = [0; 512];
        // SAFETY: the name lives during the call; librdkafka writes at most the buffer's length.
        let owned = unsafe {
            let raw = sys::rd_kafka_NewTopic_new(
                name.as_ptr(),
                topic.partitions,
                topic.replicas,
                text.as_mut_ptr(),
                text.len(),
            );
            if raw.is_null() {
                return Err(Error { code: -186, text: text_of(text.as_ptr()) });
            }
            OwnedTopic(raw)
        };
        for (name, value) in &topic.options {
            let (name, value): (CString, CString) = (c_string(name)?, c_string(value)?);
            // SAFETY: all are valid; librdkafka copies both.
            unsafe { sys::rd_kafka_NewTopic_set_config(owned.0, name.as_ptr(), value.as_ptr()) };
        }
        Ok(owned)
    }
}

impl Drop for OwnedTopic {
    fn drop(&mut self) {
        // SAFETY: the topic is ours.
        unsafe { sys::rd_kafka_NewTopic_destroy(self.0) };
    }
}

unsafe extern "C" {
    #[link_name = "rd_kafka_topic_result_error"]
    fn topic_result_error(result: *const sys::rd_kafka_topic_result_t) -> c_int;
    #[link_name = "rd_kafka_ConfigResource_error"]
    fn resource_error(resource: *const sys::rd_kafka_ConfigResource_t) -> c_int;
}
