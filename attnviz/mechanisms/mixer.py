"""What every mixer answers: which keys its heads read, what it caches, what is shown of it, and the work of a query–key
pair.

S is the number of tokens cached, T that of the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attnviz.equations import Expression, Value
from attnviz.mechanisms.mechanism import Mechanism, State, Vectors, whole_pages
from attnviz.phrases import count, in_a_row

ABSORBED = "absorbed form"  # what a mixer is asked for: `cannot`


class Mixer(Mechanism):
    """A part that mixes tokens. Its class says what it has; a page asks and does not compare names."""

    shares_kv_heads: ClassVar[bool]  # several query heads can read one cached KV head
    attends: ClassVar[bool] = True  # by a softmax over keys: the weights of a query are positive and sum to at most 1
    maps: ClassVar[str] = "attention weights"  # what its maps show; "" where it has none
    keys_known: ClassVar[bool] = True  # which keys each query head reads; of a saved run its file may not say
    vectors_note: ClassVar[str] = "q and k, dimension by dimension; this model does not rotate them."  # without RoPE
    absorbed: ClassVar[bool]  # it has a second, absorbed form, in which it decodes
    own_fields: ClassVar[tuple[str, ...]] = ()  # of a ModelConfig, which belong to no other mixer
    rotated_tensors: ClassVar[tuple[int, ...]]  # which of its cached tensors RoPE has rotated
    family: ClassVar[str]  # what a person chooses it by, for a model of their own
    chosen: ClassVar[tuple[str, ...]]  # the sizes that they choose then, besides head_dim
    refusals: ClassVar[Mapping[str, str]] = {}  # what cannot be done or shown with it, and why
    work_known: ClassVar[bool] = True  # its FLOPs and what a step reads; else no speed is given

    n_heads: int
    window: int | None = None
    n_sinks: int = 0
    sink_logits: bool = False  # one learned sink logit per query head: its share of the weight goes to no token
    reads_cache: bool = False  # the keys and values of another layer, and none of its own
    top_k: int | None = None  # keys per query that an indexer keeps; None: it has no indexer
    if TYPE_CHECKING:  # fields of one mixer, properties of another

        @property
        def n_kv_heads(self) -> int:
            """Number of heads with keys of their own."""

        @property
        def head_dim(self) -> int:
            """Width of a query and of a key."""

        @property
        def source(self) -> str:
            """The file of attnviz/modules/ that computes it."""

        @property
        def scale(self) -> float | None:
            """Factor on q·k; None: 1 / sqrt(head_dim)."""

        @property
        def softcap(self) -> float | None:
            """Bound of the scores, c · tanh(score / c), before the mask."""

    @classmethod
    def of(cls, model: Any, windowed: bool) -> Self:
        """Build it from a ModelConfig's fields, with or without the sliding window."""
        raise NotImplementedError

    @classmethod
    def head_dim_of(cls, model: Any) -> int | None:
        """Return head_dim as other fields of a ModelConfig give it; None where it is d_model / n_heads by default."""
        return None

    @property
    def group_size(self) -> int:
        """Number of query heads per KV head."""
        return self.n_heads // self.n_kv_heads

    @property
    def kv_head_of(self) -> tuple[int, ...]:
        """The KV head that each query head reads: head h reads `h // group_size` (interleaved, not tiled)."""
        return tuple(h // self.group_size for h in range(self.n_heads))

    @property
    def value_head_of(self) -> tuple[int, ...]:
        """The head of values that each query head reads."""
        return self.kv_head_of

    @property
    def costed(self) -> Mixer:
        """The same mixer without what costs nothing, such as a scale."""
        return self

    @property
    def unwindowed(self) -> Mixer:
        """The same mixer without a window."""
        return self

    @property
    def alone(self) -> Mixer:
        """The same mixer without a window, on keys and values of its own."""
        return self.unwindowed

    @property
    def score_root(self) -> float:
        """The number whose square root divides q·k: head_dim, or Gemma's query_pre_attn_scalar."""
        return self.head_dim if self.scale is None else round(self.scale**-2, 6)

    @property
    def scale_text(self) -> str:
        """The divisor of q·k as text: "√64"."""
        return f"√{self.score_root:g}"

    @property
    def rotary_dim(self) -> int:
        """Number of a head's dimensions that RoPE rotates, in a layer with a rotation."""
        raise NotImplementedError

    def traced_bytes(self, n_tokens: int) -> int:
        """Return the bytes of what is recorded of a text in float32: q, k, v, pre-RoPE q and k, and the weights."""
        queries, keys = 2 * self.n_heads * self.head_dim, self.n_kv_heads * (2 * self.head_dim + self.value_dim)
        return 4 * n_tokens * (queries + keys + self.n_heads * n_tokens)

    @property
    def kind(self) -> str:
        """Attention type in lower case: "mha", "gqa", "mqa" or "mla"."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name with the number of KV heads where it varies: "MHA", "GQA-4", "MQA" or "MLA"."""
        raise NotImplementedError

    def seen(self) -> str:
        """Return which keys it attends to, in two words: "window 512"; "" for all earlier ones."""
        return ""

    @property
    def value_dim(self) -> int:
        """Width of a head's value."""
        raise NotImplementedError

    @property
    def rotary_start(self) -> int:
        """First dimension of a head that RoPE rotates."""
        raise NotImplementedError

    @classmethod
    def config_fields(cls, head_dim: int, **chosen: Any) -> dict[str, Any]:
        """Return the fields of a model's configuration for these sizes."""
        return {"head_dim": head_dim, **chosen}

    @classmethod
    def variants(cls, n_heads: int) -> tuple[dict[str, int], ...]:
        """Return the sizes with which it is compared with the others of its family."""
        return ({},)

    def summary(self) -> str:
        """State how many heads there are and what they read: "GQA: 8 query heads read 4 KV heads"."""
        raise NotImplementedError

    def maps_finding(self) -> str:
        """State what a layer's maps share, as a title: "8 query heads share 4 KV heads; hue = KV head"."""
        raise NotImplementedError

    def why_cached(self) -> str:
        """Say what stays in the cache while a text is generated, and why its size matters."""
        raise NotImplementedError

    def assumption(self, d_model: int) -> str:
        """Describe in a few words what a layer caches per token, with what a reader would not expect."""
        raise NotImplementedError

    @property
    def n_caches(self) -> int:
        """Number of parts of its cache that can lie on different accelerators: one per KV head."""
        return self.n_kv_heads

    def held_by(self, n: int) -> tuple[range, ...]:
        """Return the parts of its cache that each of n accelerators holds under tensor parallelism.

        Query heads are divided in their order, as evenly as possible, the first has most; each needs the part that it
        reads.
        """
        edges = [-(-rank * self.n_heads // n) for rank in range(n + 1)]
        readers = Fraction(self.n_heads, self.n_caches)
        return tuple(
            range(int(first // readers), int((end - 1) // readers) + 1) if end > first else range(0)
            for first, end in pairwise(edges)
        )

    def of_heads(self, vectors: Vectors) -> bool:
        """Check whether each of these vectors belongs to one KV head, and not one to all."""
        return vectors.count is not None and vectors.number == self.n_caches

    def copies(self, n: int) -> Fraction:
        """Return how many times n accelerators together hold its cache under tensor parallelism."""
        return Fraction(sum(map(len, self.held_by(n))), self.n_caches)

    def on_each(self, n: int) -> str:
        """Name what each of n accelerators caches under tensor parallelism: "1 of 8 KV heads"."""
        raise NotImplementedError

    def under_tensor_parallelism(self, n: int) -> str:
        """State what each of n accelerators caches, and how many times they hold the cache if that is more than once.

        Begins with the verb: "holds 1 of 8 KV heads, so that the cache is held 2 times".
        """
        copies = self.copies(n)
        times = f", so that the cache is held {float(copies):.3g} times" if copies > 1 else ""
        return f"holds {self.on_each(n)}{times}"

    def uneven(self, n: int) -> str:
        """Name what n accelerators cannot share evenly under tensor parallelism: "40 query heads"; "" if nothing."""
        if self.n_heads % n:
            return count(self.n_heads, "query head")
        alike = self.n_caches % n == 0 or n % self.n_caches == 0  # whole KV heads each, or as many copies of each
        return "" if alike else count(self.n_caches, "KV head")

    def own_keys(self) -> str:
        """Describe the keys and values of each head where they are its own; "" where heads read KV heads."""
        return ""

    def in_layers(self, n: int) -> str:
        """Name the attention of n layers: "GQA-2 in 3 layers"."""
        return f"{self.name} in {count(n, 'layer')}"

    def keys_read(self, kv_head: int) -> str:
        """Name the keys that a query head reads: "KV head 2", or "keys of head 2" if each head has its own."""
        raise NotImplementedError

    def read_in_short(self, kv_head: int) -> str:
        """Name what a query head reads, below its map in a grid: "KV 2"."""
        return f"KV {kv_head}"

    def read_by(self, head: int) -> str:
        """Name the keys that a query head reads, and the heads that read them too: "KV head 2, as head 4 does"."""
        kv_head = self.kv_head_of[head]
        others = [h for h, read in enumerate(self.kv_head_of) if read == kv_head and h != head]
        if not others:
            return f"{self.keys_read(kv_head)} alone"
        does = f"head {others[0]} does" if len(others) == 1 else f"heads {in_a_row(others)} do"
        return f"{self.keys_read(kv_head)}, as {does}"

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        """Return the projections whose outputs RoPE rotates in part: name -> (heads, first rotated dimension)."""
        raise NotImplementedError

    def cannot(self, what: str) -> str:
        """Return why something cannot be done or shown with this mixer, as a sentence; "" where it can."""
        return self.refusals.get(what, "")

    @property
    def score_note(self) -> str:
        """Say as a sentence what happens to q·k / √D before the mask; "" where nothing does."""
        return ""

    def scored(self, product: str, tex: bool = False) -> str:
        """Write what becomes of a product q·k / √D before the mask, as plain text or as LaTeX."""
        return product

    @property
    def maps_note(self) -> str:
        """Say what its maps show, unless they are weights of a softmax: then ""."""
        return ""

    def map_equation(self, head: int) -> tuple[str, str, str] | None:
        """Return what a head's map is computed by, as LaTeX and as plain text, with the letters; None: a softmax."""
        return None

    def masked_note(self, n_keys: int) -> str:
        """Say which cells of a map with this many keys are grey."""
        return "Grey cells are masked."

    @property
    def shares_note(self) -> str:
        """Say what roles and statistics of its heads are computed from, where its weights do not sum to 1."""
        return ""

    @property
    def summing(self) -> str:
        """Say what a query's weights sum to, after "its weights"."""
        return "sum to 1"

    @property
    def rollout_note(self) -> str:
        """Say what attention rollout does with weights that do not sum to 1, as a sentence; "" where they do."""
        return ""

    def score_letters(self) -> str:
        """Return the meaning of the letters that `scored` adds: "c = 50: soft cap"."""
        return ""

    def axes(self) -> dict[str, int]:
        """Return the sizes of its tensors' axes, besides those that every mixer has, by their letters in the source."""
        raise NotImplementedError

    def cached(self) -> tuple[Vectors, ...]:
        """Return what is cached per token."""
        raise NotImplementedError

    def state(self) -> tuple[State, ...]:
        """Return the tensors of its state, of the same size at any length; none unless it recurs or convolves."""
        return ()

    def bands(self) -> str:
        """Describe the bands of a layer in a drawing of its cache, in which each column is a token."""
        raise NotImplementedError

    def counted_when_decoding(self, n_layers: int) -> str:
        """Describe how a decode step's scores and weighted sums are counted, in n_layers layers."""
        raise NotImplementedError

    def flops_note(self, n_layers: int) -> str:
        """Return the one sentence without which these FLOPs would be misread."""
        raise NotImplementedError

    def keys(self, S: Value) -> Expression:
        """Return the keys that the last of S tokens attends to."""
        raise NotImplementedError

    def kept(self, S: Value) -> Expression:
        """Return the tokens cached after S tokens: those that the last one attends to, unless it chooses among them."""
        return self.keys(S)

    def pairs(self, S: Value) -> Expression:
        """Return the query–key pairs of a prompt of S tokens under the causal mask."""
        raise NotImplementedError

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        """Return the FLOPs of one query–key pair in all heads: its score and its share of the weighted sum."""
        raise NotImplementedError

    @property
    def entry_tokens(self) -> int:
        """Number of tokens that one entry of its cache stands for, if it is more than one."""
        return 1

    def in_pages(self, S: Value, page: int) -> Expression:
        """Return the tokens that take memory after S tokens, in pages of `page` tokens."""
        return whole_pages(self.kept(S), page)

    def stores(self, S: Value, page: int = 1) -> tuple[tuple[Expression, tuple[Vectors, ...]], ...]:
        """Return what is cached after S tokens: how many entries, in whole pages, and the vectors of each."""
        return ((self.in_pages(S, page), self.cached()),) if self.cached() else ()

    def decoding(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        """Return the work of mixing one new token into S, besides products with weights: amounts and FLOPs of each.

        In its absorbed form, if it has one.
        """
        return ((self.keys(S), self.flops_per_pair(self.absorbed)),)

    def prompt(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        """Return the same for a prompt of S tokens, not absorbed."""
        return ((self.pairs(S), self.flops_per_pair()),)

    def without_cache(self, T: Value) -> tuple[tuple[Expression, Expression], ...]:
        """Return the same for T tokens computed at once, masked scores included."""
        return ((T * T, self.flops_per_pair()),)

    def equal_at(self, S: Value) -> tuple[Expression, Expression] | None:
        """Return the new tokens at which both take as many; None if the absorbed form takes fewer for any number."""
        raise NotImplementedError

    def two_forms(self, S: Value, T: Value) -> dict[str, Expression]:
        """Return the FLOPs of mixing the last T of S tokens in each form of an absorbed mixer, by their names."""
        raise NotImplementedError

    def expanded_numbers(self) -> Expression | None:
        """Return the numbers per token if what an absorbed form caches were expanded; None without such a form."""
        return None
