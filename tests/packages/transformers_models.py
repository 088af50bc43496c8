"""transformers: models of several kinds trained, and texts generated."""
import json
import os

os.environ["HF_HUB_OFFLINE"], os.environ["TRANSFORMERS_VERBOSITY"] = "1", "error"

import torch  # noqa: E402
import transformers as hf  # noqa: E402
from filled import filled, labels, numbers, trained  # noqa: E402

torch.set_default_dtype(torch.float64)
found: dict[str, object] = {}
small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64}
still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
texts = {"vocab_size": 99, "max_position_embeddings": 64}
ids = labels(96, 2, 10) + 3
MODELS = {
    "gpt2": (hf.GPT2LMHeadModel(hf.GPT2Config(
        n_embd=32, n_layer=2, n_head=2, vocab_size=99, n_positions=64, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0)), {"input_ids": ids, "labels": ids}),
    "llama": (hf.LlamaForCausalLM(hf.LlamaConfig(**small, **texts, num_key_value_heads=2)),
              {"input_ids": ids, "labels": ids}),
    "bert": (hf.BertForSequenceClassification(hf.BertConfig(**small, **still, **texts,
                                                            num_labels=3)),
             {"input_ids": ids, "labels": labels(3, 2),
                  "attention_mask": torch.tensor([[1] * 10, [1] * 6 + [0] * 4])}),
    "vit": (hf.ViTForImageClassification(hf.ViTConfig(**small, **still, image_size=32,
                                                      patch_size=8, num_labels=5)),
            {"pixel_values": numbers(2, 3, 32, 32), "labels": labels(5, 2)})}
for name, (model, given) in MODELS.items():
    filled(model.double()).train()
    found[name] = trained(model, lambda model=model, given=given: model(**given).loss)
    if name in ("gpt2", "llama"):
        model.eval()
        for beams in (1, 2):
            found[f"{name} of {beams}"] = model.generate(
                ids[:, :5], max_new_tokens=6, num_beams=beams, do_sample=False, pad_token_id=0,
                eos_token_id=None).tolist()
print(json.dumps(found))
