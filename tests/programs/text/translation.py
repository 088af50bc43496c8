"""nn.Transformer from words to words: causal and padding masks, a rate that warms up."""
import torch
import torch.nn as nn

PAD = 0


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, emb_size):
        super().__init__()
        self.transformer = nn.Transformer(
            d_model=emb_size, nhead=2, num_encoder_layers=1, num_decoder_layers=1,
            dim_feedforward=8, dropout=0.0, activation="gelu")
        self.generator = nn.Linear(emb_size, tgt_vocab)
        self.src_tok_emb = nn.Embedding(src_vocab, emb_size)
        self.tgt_tok_emb = nn.Embedding(tgt_vocab, emb_size)

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask):
        outs = self.transformer(self.src_tok_emb(src), self.tgt_tok_emb(trg), src_mask, tgt_mask,
                                None, src_padding_mask, tgt_padding_mask, src_padding_mask)
        return self.generator(outs)


def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones((sz, sz))) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, float(0.0))


def model():
    transformer = Seq2SeqTransformer(9, 11, 6)
    for p in transformer.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return transformer


def optimizer(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.01 * min((step + 1) ** -0.5, (step + 1) * 3 ** -1.5))
    return optimizer, scheduler


def batches(rng):
    for _ in range(4):
        src, tgt = rng.integers(1, 9, (5, 3)), rng.integers(1, 11, (5, 3))
        src[3:, 1], tgt[4:, 2] = PAD, PAD
        yield src, tgt


def step(model, optimizers, src, tgt):
    tgt_input, tgt_out = tgt[:-1, :], tgt[1:, :]
    src_mask = torch.zeros((src.shape[0], src.shape[0])).type(torch.bool)
    tgt_mask = generate_square_subsequent_mask(tgt_input.shape[0])
    logits = model(src, tgt_input, src_mask, tgt_mask, (src == PAD).transpose(0, 1),
                   (tgt_input == PAD).transpose(0, 1).to(tgt_mask.dtype) * -1e9)
    optimizers[0].zero_grad()
    loss = nn.CrossEntropyLoss(ignore_index=PAD)(logits.reshape(-1, logits.shape[-1]),
                                                 tgt_out.reshape(-1))
    loss.backward()
    optimizers[0].step()
    return loss.detach()


def after_step(model, optimizers):
    optimizers[1].step()
