// Threads that work for the networks, and their arithmetic.
#ifndef OPENCLAW_NETS_POOL_H
#define OPENCLAW_NETS_POOL_H

#include <immintrin.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

// Of MKL inside libtorch_cpu.so: the number of threads of the calling thread's products.
extern "C" int MKL_Set_Num_Threads_Local(int threads);

// A thread's arithmetic while it works for us: one thread to a product, results too small for a normal float become 0.
class Arithmetic {
 public:
  Arithmetic() : threads_(MKL_Set_Num_Threads_Local(1)), control_(_mm_getcsr()) {
    _mm_setcsr(control_ | _MM_FLUSH_ZERO_ON);
  }
  ~Arithmetic() {
    _mm_setcsr(control_);
    MKL_Set_Num_Threads_Local(threads_);
  }
  Arithmetic(const Arithmetic &) = delete;
  void operator=(const Arithmetic &) = delete;

 private:
  int threads_;
  unsigned control_;
};

// Threads that sleep between jobs: the rollout wants the cores then. The caller is worker 0.
class Pool {
 public:
  explicit Pool(int workers) {
    try {
      for (int w = 1; w < workers; w++) threads_.emplace_back([this, w] { work(w); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Pool() { stop(); }
  Pool(const Pool &) = delete;
  void operator=(const Pool &) = delete;

  int workers() const { return int(threads_.size()) + 1; }

  // Calls f(worker) on every worker and waits for all.
  template <typename F>
  void run(F &&f) {
    Arithmetic arithmetic;
    if (threads_.empty()) {
      f(0);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = [](void *f, int w) { (*static_cast<typename std::remove_reference<F>::type *>(f))(w); };
      argument_ = &f;
      pending_ = int(threads_.size());
      turn_++;
    }
    start_.notify_all();
    f(0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return pending_ == 0; });
  }

 private:
  void work(int w) {
    Arithmetic arithmetic;
    std::unique_lock<std::mutex> lock(mutex_);
    for (uint64_t seen = 0;;) {
      start_.wait(lock, [&] { return stopping_ || turn_ != seen; });
      if (stopping_) return;
      seen = turn_;
      auto job = job_;
      auto argument = argument_;
      lock.unlock();
      job(argument, w);
      lock.lock();
      if (--pending_ == 0) done_.notify_one();
    }
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    start_.notify_all();
    for (auto &thread : threads_) thread.join();
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  void (*job_)(void *, int) = nullptr;
  void *argument_ = nullptr;
  uint64_t turn_ = 0;
  int pending_ = 0;
  bool stopping_ = false;
};

#endif
